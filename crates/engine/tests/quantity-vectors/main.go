// Command quantity-vectors writes what Kubernetes itself makes of several thousand quantities, for
// tests/quantity.rs to compare with. It takes no input and always writes the same. To renew:
//
//	cd crates/engine/tests/quantity-vectors && go run .
//
// parsed.tsv, one text a line:
//
//	text  !                                             it is refused
//	text  format+sign  canonical  String()  value  milli  Value()  MilliValue()
//
// format is D (DecimalSI), B (BinarySI) or E (DecimalExponent), sign is -, 0 or +. canonical is what
// CanonicalizeBytes gives; where that has no suffix for the exponent and drops it, the exponent is
// written out ("1e21"). value and milli are exact, rounded away from zero, or "x" where they do
// not fit 64 bits. String(), Value() and MilliValue() are given where they differ from the exact
// ones (and fit).
//
// amounts.tsv, one amount a line: resource  amount  canonical.
//
// Bytes of a text other than visible ASCII, and %, are written as %XX.
package main

import (
	"bufio"
	"fmt"
	"log"
	"math/big"
	"math/rand"
	"os"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	units = []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

	exponents = []string{"e0", "e1", "e2", "e3", "E3", "e+3", "E+03", "e-3", "E-1", "e-2", "e6", "e9", "e-9", "e-10", "e-12", "e-30", "e18", "e19", "e21", "e26", "e29"}

	// No unit, every one of them.
	strangers = []string{"K", "g", "GB", "gi", "Gib", "KI", "ki", "mi", "mm", "kk", "i", "b", "B", "e", "e+", "E-", "e1.5", "ee3", "Ei3", "m3", "+", "-1", " ", " Gi", "Gi ", "%", "µ", "e 3", "e99999999999999999999", "E-99999999999999999999", "_000", ",5", "\n"}

	numbers = []string{"", ".", "0", "00", "0.0", "1", "01", "5.", ".5", "0.1", "0.001", "1.5", "1.500", "2.25", "3", "8", "10", "12.0", "100", "999", "1000", "1001", "1023", "1024", "1025", "1.1", "2048", "1500", "1234567", "1000000", "1048576", "0.0009765625", "0.0000000001"}

	edges = []string{
		"9223372036854775806", "9223372036854775807", "9223372036854775808", "9223372036854775807.5",
		"9223372036854775", "9223372036854775.807", "9223372036854775.8070000001", "9223372036854775.808",
		"9223372036854775807m", "9223372036854775808m", "9223372036854775807n", "9223372036854775807u",
		"999999999999999999", "1000000000000000000", "99999999999999999999", "123456789012345678901234567890",
		"7Ei", "7.9999999999999999999Ei", "7.99999999999999999991326382620115964527941Ei", "8Ei", "16Ei", "1024Ei", "8191Pi", "8192Pi", "9007199254740991Ki", "9007199254740992Ki",
		"9007199254740991.9990234375Ki", "9.223372036854775807E", "9.223372036854775808E", "10E", "100E", "999E", "1000E", "1001E", "1000000E", "123456789E", "5000000000E",
		"1e18", "9e18", "1e19", "1e20", "100000000000000000000000000000", "170141183460469231731687303715", "170141183460469231731687303715.884105727",
		"170141183460469231731687303715.884105728", "170141183460469231731687303716", "170141183460.469231731687303715E", "170141183460.469231731687303716E",
		"170141183460469231731.687303715884105727G", "170141183460469231731.687303715884105728G", "170141183460469231731687303715884105727n", "170141183460469231731687303715884105727.1n", "170141183460469231731687303715884105728n",
		"1.70141183460469231731687303715884105727e29", "1.70141183460469231731687303715884105728e29", "147573952589.676412928Ei", "147573952589.676412929Ei", "147573952590Ei",
		"1e30", "1e38", "1e39", "1e99", "1e1000", "0e1000", "1e-1000", "0e-1000", "0.00000000000000000000000000000000000000000000000000000001e60", "10000000000000000000000000000000000000000000000000000e-50",
		"340282366920938463463374607431768211456", "0.9999999999", "0.99999999999", "1.0000000001", "1.0000000000000000000000001", "1.0000000001Ki", "1.00000000000000000000000000000000000000000001Ei",
		"0.0000000000000000001Ei", "0.00000000000000000086736173798840354720596224069595336914062Ei", "0.99999999999999999999999999999999999Gi", "1023.99999999999999999", "1023.999999999", "0.333333333333333333333333333333333Ti", "000000000000000000000000000000000000000000000000000000000001",
		"+", "-", "+.", "-.", "..", "1..2", "1.2.3", "--1", "++1", "+-1", "- 1", " 1", "1 ", "\t1", "1\n", "1_000", "1,5", "0x10", "0b1", "inf", "NaN", "null", "e", "E", "e3", "e-9", "e-10", "-e-20", ".e-20", "Ki", "-Ki", "m",
		"１", "½", "1µ", "1\u00a0Gi", "1e٣", "∞", "−1", "\x00", "1\x00",
		// Kubernetes keeps 32 bits of an exponent.
		"1e4294967296", "1e4294967297", "1e-4294967296", "0e4294967297", "0e99999999999", "1e9223372036854775807", "5e-4294967293", "1e9223372036854775808", "0e9223372036854775808",
	}
)

func main() {
	log.SetFlags(0)
	write("parsed.tsv", func(out *bufio.Writer) {
		seen := map[string]bool{}
		each(func(text string) {
			if !seen[text] {
				seen[text] = true
				out.WriteString(parsed(text) + "\n")
			}
		})
	})
	write("amounts.tsv", amounts)
}

func write(name string, body func(*bufio.Writer)) {
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(file)
	body(out)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}

// each calls use with every text: all combinations of parts, the edges, and random ones.
func each(use func(string)) {
	use("")
	for _, sign := range []string{"", "-"} {
		for _, number := range numbers {
			for _, suffix := range units {
				use(sign + number + suffix)
			}
			for _, suffix := range exponents {
				use(sign + number + suffix)
			}
		}
	}
	for _, number := range []string{"1", "2.5", "0", ".", ""} {
		for _, suffix := range strangers {
			use(number + suffix)
		}
	}
	for _, edge := range edges {
		use(edge)
		use("-" + edge)
	}
	for _, suffix := range units {
		use("+7" + suffix)
	}

	random := rand.New(rand.NewSource(1))
	digits := func(max int) string {
		text := make([]byte, random.Intn(max))
		for i := range text {
			text[i] = byte('0' + random.Intn(10))
		}
		// Many zeroes at the end, where canonical forms differ.
		for i := len(text) - 1; i >= 0 && random.Intn(3) == 0; i-- {
			text[i] = '0'
		}
		return string(text)
	}
	suffix := func() string {
		switch random.Intn(8) {
		case 0:
			return []string{"e", "E"}[random.Intn(2)] + strconv.Itoa(random.Intn(50)-25)
		case 1:
			return strangers[random.Intn(len(strangers))]
		default:
			return units[random.Intn(len(units))]
		}
	}
	for range 1600 {
		text := []string{"", "", "", "-", "+"}[random.Intn(5)] + digits(12)
		if random.Intn(2) == 0 {
			text += "." + digits(14)
		}
		use(text + suffix())
	}
	for range 300 {
		use(digits(45) + "." + digits(45) + suffix())
	}
	// Anything, of the letters that quantities are made of.
	const letters = "0123456789012345..+-eEinumkKMGTPi "
	for range 500 {
		text := make([]byte, 1+random.Intn(6))
		for i := range text {
			text[i] = letters[random.Intn(len(letters))]
		}
		use(string(text))
	}
}

func parsed(text string) string {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return escape(text) + "\t!"
	}
	spelt := quantity.String()
	canonical := canonical(quantity)
	if spelt == canonical {
		spelt = ""
	}
	format := map[resource.Format]string{resource.DecimalSI: "D", resource.BinarySI: "B", resource.DecimalExponent: "E"}[quantity.Format]
	sign := []string{"-", "0", "+"}[quantity.Sign()+1]
	value, valueDiffers := exact(quantity, 0, quantity.Value())
	milli, milliDiffers := exact(quantity, 3, quantity.MilliValue())
	fields := []string{escape(text), format + sign, canonical, escape(spelt), value, milli, valueDiffers, milliDiffers}
	return strings.TrimRight(strings.Join(fields, "\t"), "\t")
}

// canonical is the form that does not depend on how the quantity was spelt.
func canonical(quantity resource.Quantity) string {
	number, suffix := quantity.CanonicalizeBytes(nil)
	mantissa, exponent := quantity.AsCanonicalBytes(nil)
	if quantity.Format == resource.DecimalSI && exponent > 18 && string(number) != "0" {
		return fmt.Sprintf("%se%d", mantissa, exponent)
	}
	return string(number) + string(suffix)
}

// exact gives quantity × 10^digits rounded away from zero, and what Kubernetes says if that is
// something else.
func exact(quantity resource.Quantity, digits int, theirs int64) (string, string) {
	if quantity.IsZero() {
		return "0", "" // whatever its exponent, of which 0e99999999999 has a large one
	}
	decimal := quantity.DeepCopy()
	rounded := new(inf.Dec).Round(decimal.AsDec(), inf.Scale(digits), inf.RoundUp)
	unscaled := rounded.UnscaledBig()
	switch {
	case !unscaled.IsInt64():
		return "x", ""
	case unscaled.Int64() == theirs:
		return unscaled.String(), ""
	default:
		return unscaled.String(), strconv.FormatInt(theirs, 10)
	}
}

func amounts(out *bufio.Writer) {
	list := []int64{0, 1, 2, 9, 10, 100, 500, 999, 1000, 1001, 1023, 1024, 1025, 1500, 2000, 2048, 10000, 12000, 1000000, 1048576, 1073741824, 1610612736, 1000000000, 1<<40 + 1, 1 << 50, 1 << 60, 7 << 60, 1000000000000000000, 9223372036854775807}
	random := rand.New(rand.NewSource(2))
	for range 120 {
		amount := random.Int63() >> random.Intn(63)
		list = append(list, amount, amount>>20<<20, amount/1000*1000)
	}
	seen := map[int64]bool{}
	for _, amount := range list {
		if seen[amount] {
			continue
		}
		seen[amount] = true
		for _, amount := range []int64{amount, -amount} {
			line := func(name string, quantity *resource.Quantity) {
				fmt.Fprintf(out, "%s\t%d\t%s\n", name, amount, quantity)
			}
			line("cpu", resource.NewMilliQuantity(amount, resource.DecimalSI))
			line("memory", resource.NewQuantity(amount, resource.BinarySI))
			line("nvidia.com/gpu", resource.NewQuantity(amount, resource.DecimalSI))
		}
	}
	// Sums of amounts go beyond 64 bits.
	for _, text := range []string{"9223372036854775808", "18446744073709551615", "123456789012345678901234567", "170141183460469231731687303715884105727"} {
		sum, _ := new(big.Int).SetString(text, 10)
		fmt.Fprintf(out, "memory\t%s\t%s\n", text, resource.NewDecimalQuantity(*inf.NewDecBig(sum, 0), resource.BinarySI))
		fmt.Fprintf(out, "cpu\t%s\t%s\n", text, resource.NewDecimalQuantity(*inf.NewDecBig(sum, 3), resource.DecimalSI))
		fmt.Fprintf(out, "pods\t%s\t%s\n", text, resource.NewDecimalQuantity(*inf.NewDecBig(sum, 0), resource.DecimalSI))
	}
}

func escape(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b <= ' ' || b >= 0x7f || b == '%' {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}

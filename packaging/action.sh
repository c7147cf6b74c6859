#!/usr/bin/env bash
# Runs one command of Quotient for a pull request, as action.yml calls it: the output goes to the log and to the job's
# summary, that of `plan` also into one comment, which later runs replace. The exit code is the command's.
set -euo pipefail
: "${QUOTIENT:=quotient}" "${COMMAND:?lint, test, simulate or plan}" "${FILES:?files and folders}"
: "${ON:=}" "${CONFIG:=}" "${COMMENT:=true}" "${PULL_REQUEST:=}" "${GITHUB_STEP_SUMMARY:=/dev/null}"

# Files are separated by spaces, as in the workflow.
read -r -a files <<<"$FILES"
read -r -a on <<<"$ON"
arguments=("$COMMAND")
[ -n "$CONFIG" ] && arguments+=(--config "$CONFIG")
case $COMMAND in
  lint | test | simulate) arguments+=("${files[@]}") ;;
  plan)
    for file in "${files[@]}"; do arguments+=(-f "$file"); done
    for file in "${on[@]}"; do arguments+=(--on "$file"); done
    ;;
  *)
    echo "error: command: \"$COMMAND\": expected lint, test, simulate or plan" >&2
    exit 2
    ;;
esac

output=$(mktemp)
trap 'rm -f "$output"' EXIT
status=0
NO_COLOR=1 COLUMNS=120 "$QUOTIENT" "${arguments[@]}" >"$output" 2>&1 </dev/null || status=$?
cat "$output"

page() {
  printf '### `quotient %s`\n\n```\n' "$COMMAND"
  # A comment holds 65,536 characters; what is longer is in the log.
  head -c 60000 "$output"
  printf '```\n'
}
page >>"$GITHUB_STEP_SUMMARY"
if [ "$COMMAND" = plan ] && [ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
  page | gh pr comment "$PULL_REQUEST" --edit-last --create-if-none --body-file - ||
    echo "quotient: the comment could not be written; the job's summary has the plan" >&2
fi
exit "$status"

/* Lets a process see another time of day than it is: as many seconds are added as the file says that the variable
 * names. What is measured by clocks that cannot be set stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long seconds_added(void) {
    char text[32] = {0};
    const char *path = getenv("QUOTIENT_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(clock, time);
    if (answer == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds_added();
    return answer;
}

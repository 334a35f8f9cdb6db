/*
 * A clock for one process, changed from outside while the process runs.
 *
 * Preloaded (LD_PRELOAD), it answers gettimeofday, time and clock_gettime in libc's place. The environment variable
 * CLOCKSHIM names a file with the controls below; the test writes it, this library maps it.
 *
 * CLOCK_MONOTONIC is left alone: timers live in the kernel, which no preloaded library can bend.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The order and width of these fields are repeated in clockshim.rs. */
struct controls {
    _Atomic int64_t generation;     /* odd while the test is writing */
    _Atomic int64_t wall_offset_us; /* added to the wall clock */
    _Atomic int64_t boot_offset_us; /* added to CLOCK_BOOTTIME: time slept, as a client sees it */
    _Atomic int64_t rate_ppm;       /* how much faster both clocks run than the true ones ... */
    _Atomic int64_t base_us;        /* ... since this true CLOCK_BOOTTIME */
};

static const struct controls *controls;

/* Before main, so that no two threads race for it and no call from a signal handler needs getenv. */
__attribute__((constructor)) static void map_controls(void) {
    const char *path = getenv("CLOCKSHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *controls, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        controls = mapped;
}

static int true_clock(clockid_t id, struct timespec *time) {
    return (int)syscall(SYS_clock_gettime, id, time);
}

static int64_t true_boot_us(void) {
    struct timespec time = {0};
    true_clock(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* How far the clock is off, in microseconds. */
static int64_t error_us(int is_wall) {
    int64_t error = 0;
    /* A writer that died in the middle must not hang the process: after that many tries, take what is there. */
    for (int tries = 0; controls && tries < 10000; tries++) {
        int64_t before = controls->generation;
        error = is_wall ? controls->wall_offset_us : controls->boot_offset_us;
        if (controls->rate_ppm)
            error += (true_boot_us() - controls->base_us) * controls->rate_ppm / 1000000;
        if (before % 2 == 0 && before == controls->generation)
            break;
    }
    return error;
}

static void shift(struct timespec *time, int64_t by_us) {
    int64_t nanos = time->tv_nsec + by_us % 1000000 * 1000;
    time->tv_sec += by_us / 1000000;
    if (nanos < 0) {
        nanos += 1000000000;
        time->tv_sec -= 1;
    } else if (nanos >= 1000000000) {
        nanos -= 1000000000;
        time->tv_sec += 1;
    }
    time->tv_nsec = nanos;
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = true_clock(id, time);
    if (result != 0)
        return result;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        shift(time, error_us(1));
    else if (id == CLOCK_BOOTTIME)
        shift(time, error_us(0));
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone; /* obsolete, and always zero on Linux */
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

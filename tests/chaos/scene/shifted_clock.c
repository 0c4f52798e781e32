/* Preloaded: shifts the wall clock of a program while it runs. The monotonic clock is untouched.
 *
 * CHAOS_CLOCK names a file with two 64-bit integers: the seconds to add, and the true time (unix seconds) since when.
 * Times of files are shifted, too, if they are later than that: a file written after a jump has the time of the new clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift { volatile int64_t seconds, since; };

static const struct shift *shift(void) {
    static const struct shift none, *found;
    if (!found) {
        const char *path = getenv("CHAOS_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        found = map == MAP_FAILED ? &none : map;
    }
    return found;
}

#define NEXT(name) static typeof(&name) next; if (!next) next = (typeof(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t clock, struct timespec *t) {
    NEXT(clock_gettime);
    int status = next(clock, t);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += shift()->seconds;
    return status;
}

int gettimeofday(struct timeval *t, void *zone) {
    NEXT(gettimeofday);
    int status = next(t, zone);
    if (!status) t->tv_sec += shift()->seconds;
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

static int dated(int status, struct stat *found) {
    if (!status && shift()->seconds && found->st_mtim.tv_sec >= shift()->since) found->st_mtim.tv_sec += shift()->seconds;
    return status;
}

int stat(const char *path, struct stat *found) { NEXT(stat); return dated(next(path, found), found); }
int lstat(const char *path, struct stat *found) { NEXT(lstat); return dated(next(path, found), found); }
int fstat(int fd, struct stat *found) { NEXT(fstat); return dated(next(fd, found), found); }
int fstatat(int fd, const char *path, struct stat *found, int flags) {
    NEXT(fstatat);
    return dated(next(fd, path, found, flags), found);
}

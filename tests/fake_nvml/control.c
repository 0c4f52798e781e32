/* The control file, the call counts, and what every call goes through first. See fake.h. */
#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 256, LOOK_EVERY_US = 2000 };
struct count_row { char call[56]; uint64_t system, gpu[MAX_GPUS]; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct control *current;
static struct timespec read_at;
static ino_t read_inode;
static uint64_t looked_us;
static struct count_row *counts;
static const char *row_owner[ROWS];                     /* the function's own name, so that rows are found by address */
static struct device devices[MAX_GPUS][MAX_MIG + 1];

static int gpu_named(const char *word)
{
    return *word == '*' ? EVERY_GPU : *word == '-' ? NO_GPU : atoi(word);
}

static void parse(struct control *c, const char *line)
{
    char gpu[16], word[64];
    long long a, b;
    int code;
    if (sscanf(line, "gpus %d", &c->gpus) == 1 || sscanf(line, "latency_us %d", &c->latency_us) == 1
        || sscanf(line, "unified %d", &c->unified) == 1 || sscanf(line, "no_gpm %d", &c->no_gpm) == 1
        || sscanf(line, "driver %63s", c->driver) == 1)
        return;
    if (sscanf(line, "hang %15s %63s", gpu, word) == 2 && c->hangs < MAX_RULES) {
        struct rule *r = &c->hang[c->hangs++];
        r->gpu = gpu_named(gpu);
        strcpy(r->call, word);
    } else if (sscanf(line, "error %15s %d %63s", gpu, &code, word) == 3 && c->errors < MAX_RULES) {
        struct rule *r = &c->error[c->errors++];
        r->gpu = gpu_named(gpu);
        r->code = code;
        strcpy(r->call, word);
    } else if (sscanf(line, "field %15s %lld %d", gpu, &a, &code) == 3 && c->fields < MAX_RULES) {
        c->field[c->fields++] = (struct field_rule){gpu_named(gpu), (int)a, code, 0};
    } else if (sscanf(line, "raw %15s %lld %lld", gpu, &a, &b) == 3 && c->raws < MAX_RULES) {
        c->raw[c->raws++] = (struct field_rule){gpu_named(gpu), (int)a, 0, (uint64_t)b};
    } else if (sscanf(line, "set %15s %31s %lld", gpu, word, &a) == 3 && c->settings < MAX_RULES) {
        struct setting *s = &c->setting[c->settings++];
        s->gpu = gpu_named(gpu);
        s->value = a;
        strcpy(s->name, word);
    } else if (sscanf(line, "process %15s %lld %lld %63s %d", gpu, &a, &b, word, &code) == 5 && c->processes < MAX_RULES) {
        enum kind kind = *word == 'g' ? GRAPHICS : *word == 'm' ? MPS : COMPUTE;
        c->process[c->processes++] = (struct process){gpu_named(gpu), (int)a, code, (uint64_t)b, kind};
    } else if (sscanf(line, "xid %15s %lld %lld", gpu, &a, &b) == 3 && c->xids < MAX_RULES) {
        c->xid[c->xids++] = (struct xid){gpu_named(gpu), (int)a, (long)b};
    } else if (sscanf(line, "mig %15s %d", gpu, &code) == 2) {
        for (int g = 0; g < MAX_GPUS; g++)
            if (gpu_named(gpu) == EVERY_GPU || gpu_named(gpu) == g)
                c->mig[g] = code;
    }
}

static struct control *read_control(const char *path)
{
    struct control *c = calloc(1, sizeof *c);
    c->gpus = 8;
    strcpy(c->driver, "550.54.15");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    while (file && fgets(line, sizeof line, file))
        parse(c, line);
    if (file)
        fclose(file);
    return c;
}

const struct control *settings(void)
{
    const char *path = getenv("FAKE_NVML_CONTROL");
    struct stat seen = {0};
    pthread_mutex_lock(&lock);
    uint64_t now = now_us();
    if (current && now - looked_us < LOOK_EVERY_US && now >= looked_us) {
        const struct control *c = current;
        pthread_mutex_unlock(&lock);
        return c;
    }
    looked_us = now;
    if (path)
        stat(path, &seen);
    if (!current || seen.st_ino != read_inode || seen.st_mtim.tv_sec != read_at.tv_sec || seen.st_mtim.tv_nsec != read_at.tv_nsec) {
        current = read_control(path);              /* the old one is left alone: another thread may still read it */
        read_inode = seen.st_ino;
        read_at = seen.st_mtim;
    }
    const struct control *c = current;
    pthread_mutex_unlock(&lock);
    return c;
}

static void count(const char *call, int gpu)
{
    const char *path = getenv("FAKE_NVML_COUNTS");
    if (!path)
        return;
    pthread_mutex_lock(&lock);
    if (!counts) {
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        if (fd >= 0 && ftruncate(fd, ROWS * sizeof *counts) == 0)
            counts = mmap(NULL, ROWS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
            close(fd);
    }
    for (int row = 0; counts && counts != MAP_FAILED && row < ROWS; row++) {
        if (!row_owner[row] && (!counts[row].call[0] || strcmp(counts[row].call, call) == 0)) {
            row_owner[row] = call;
            strncpy(counts[row].call, call, sizeof counts[row].call - 1);
        }
        if (row_owner[row] == call) {
            ++*(gpu >= 0 ? &counts[row].gpu[gpu] : &counts[row].system);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

static const struct rule *matching(const struct rule *rules, int n, int gpu, const char *call)
{
    for (int i = 0; i < n; i++)
        if ((rules[i].gpu == gpu || (rules[i].gpu == EVERY_GPU && gpu >= 0))
            && (rules[i].call[0] == '*' || strcmp(rules[i].call, call) == 0))
            return &rules[i];
    return NULL;
}

int enter(const char *call, const struct device *device)
{
    int gpu = device ? device->gpu : NO_GPU;
    const struct control *c = settings();
    count(call, gpu);
    if (c->latency_us)
        usleep((useconds_t)c->latency_us);
    while (matching(c->hang, c->hangs, gpu, call)) {
        usleep(20000);
        c = settings();
    }
    const struct rule *error = matching(c->error, c->errors, gpu, call);
    return error ? error->code : OK;
}

long long setting(int gpu, const char *name, long long otherwise)
{
    const struct control *c = settings();
    for (int i = 0; i < c->settings; i++)
        if ((c->setting[i].gpu == gpu || c->setting[i].gpu == EVERY_GPU) && strcmp(c->setting[i].name, name) == 0)
            return c->setting[i].value;
    return otherwise;
}

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

int wave(int gpu)
{
    int phase = (int)((now_us() / 1000000u + (uint64_t)gpu * 7u) % 40u);
    return phase < 20 ? 50 + phase * 2 : 130 - phase * 2;         /* 50 .. 90 and back in 40 s */
}

struct device *device_at(int gpu, int mig)
{
    struct device *device = &devices[gpu][mig + 1];
    device->gpu = gpu;
    device->mig = mig;
    return device;
}

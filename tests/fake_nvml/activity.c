/* Events (Xid) and GPM activity. See fake.h. */
#include "fake.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum { XID_EVENT = 0x8, ECC_EVENTS = 0x3 };

struct event { struct device *device; uint64_t type, data; unsigned gpu_instance, compute_instance; };
struct event_set { int registered[MAX_GPUS], watch; long delivered; pthread_mutex_t lock; };

static int watch_control(void)
{
    const char *path = getenv("FAKE_NVML_CONTROL");
    char folder[1024];
    int fd = path && strlen(path) < sizeof folder ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
    if (fd >= 0) {
        strcpy(folder, path);
        char *slash = strrchr(folder, '/');
        if (!slash)
            strcpy(folder, ".");
        else
            *slash = 0;
        inotify_add_watch(fd, folder, IN_MOVED_TO | IN_CLOSE_WRITE);
    }
    return fd;
}

static long newest_serial(const struct control *c)
{
    long newest = 0;
    for (int i = 0; i < c->xids; i++)
        newest = c->xid[i].serial > newest ? c->xid[i].serial : newest;
    return newest;
}

int nvmlDeviceGetSupportedEventTypes(struct device *d, uint64_t *types) { ENTER(d); *types = XID_EVENT | ECC_EVENTS; return OK; }

int nvmlEventSetCreate(struct event_set **set)
{
    ENTER(NULL);
    *set = calloc(1, sizeof **set);
    (*set)->delivered = newest_serial(settings());          /* only what happens after registration is told */
    (*set)->watch = watch_control();
    pthread_mutex_init(&(*set)->lock, NULL);
    return OK;
}

int nvmlEventSetFree(struct event_set *set) { ENTER(NULL); close(set->watch); free(set); return OK; }

/* Asleep until the control file changes, as the real one is until the GPU says something. */
static void sleep_until_change(struct event_set *set, int timeout_ms)
{
    char changes[4096];
    struct pollfd waiting = {set->watch, POLLIN, 0};
    if (poll(&waiting, 1, timeout_ms) <= 0)
        return;
    while (read(set->watch, changes, sizeof changes) > 0)
        ;
    usleep(5000);                                           /* settings() looks at the file every 2 ms at most */
}

int nvmlDeviceRegisterEvents(struct device *d, uint64_t types, struct event_set *set)
{
    ENTER(d);
    if (types & ~(uint64_t)(XID_EVENT | ECC_EVENTS))
        return NOT_SUPPORTED;
    pthread_mutex_lock(&set->lock);                         /* as on an H200 with driver 580: a pending wait holds it */
    set->registered[d->gpu] = 1;
    pthread_mutex_unlock(&set->lock);
    return OK;
}

static int wait_for_event(struct event_set *set, struct event *event, unsigned timeout_ms)
{
    uint64_t until = now_us() + timeout_ms * 1000ull;
    for (;;) {
        const struct control *c = settings();
        for (int i = 0; i < c->xids; i++) {
            const struct xid *x = &c->xid[i];
            if (x->serial <= set->delivered || x->gpu < 0 || !set->registered[x->gpu])
                continue;
            set->delivered = x->serial;
            *event = (struct event){device_at(x->gpu, -1), XID_EVENT, (uint64_t)x->code, 0xFFFFFFFFu, 0xFFFFFFFFu};
            return OK;
        }
        uint64_t now = now_us();
        if (now >= until)
            return TIMEOUT;
        if (set->watch < 0)
            usleep(100000);
        else
            sleep_until_change(set, (int)((until - now) / 1000u) + 1);
    }
}

int nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms)
{
    ENTER(NULL);
    pthread_mutex_lock(&set->lock);
    int result = wait_for_event(set, event, timeout_ms);
    pthread_mutex_unlock(&set->lock);
    return result;
}

#ifndef OLD_DRIVER
struct gpm_support { unsigned version, supported; };
struct gpm_sample { uint64_t taken_us; int gpu; };
struct gpm_metric { unsigned id; int result; double value; const char *names[3]; };
struct gpm_metrics { unsigned version, n; struct gpm_sample *first, *second; struct gpm_metric metric[]; };

int nvmlGpmQueryDeviceSupport(struct device *d, struct gpm_support *support) { ENTER(d); support->supported = !settings()->no_gpm; return OK; }
int nvmlGpmSampleAlloc(struct gpm_sample **sample) { ENTER(NULL); *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(struct gpm_sample *sample) { ENTER(NULL); free(sample); return OK; }

int nvmlGpmSampleGet(struct device *d, struct gpm_sample *sample)
{
    ENTER(d);
    *sample = (struct gpm_sample){now_us(), d->gpu};
    return OK;
}

/* Counted for the GPU that the samples are of, though the call names none. */
int nvmlGpmMetricsGet(struct gpm_metrics *get)
{
    if (!get->first || !get->second)
        return INVALID_ARGUMENT;
    ENTER(device_at(get->second->gpu, -1));
    if (!get->first->taken_us || get->second->taken_us <= get->first->taken_us)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->n; i++) {
        struct gpm_metric *m = &get->metric[i];
        int gpu = get->second->gpu;
        m->result = OK;
        switch (m->id) {
        case 2: m->value = 80.0 + gpu; break;
        case 3: m->value = 40.0 + gpu; break;
        case 5: m->value = 30.0 + gpu; break;
        case 10: m->value = 50.0 + gpu; break;
        case 12: m->value = 10.0 + gpu; break;
        case 20: case 21: m->value = 100.0; break;
        case 60: case 61: m->value = 1000.0; break;
        default: m->result = NOT_SUPPORTED;
        }
    }
    return OK;
}
#endif

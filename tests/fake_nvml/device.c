/* System and device queries. See fake.h. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

struct utilization { unsigned gpu, memory; };
struct memory { uint64_t total, free, used; };
struct memory_v2 { unsigned version; uint64_t total, reserved, free, used; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct process_info { unsigned pid; uint64_t bytes; unsigned gpu_instance, compute_instance; };
struct process_sample { unsigned pid; uint64_t timestamp; unsigned sm, memory, encoder, decoder; };
struct device_attributes { unsigned sm, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; uint64_t memory_mb; };

static const uint64_t GIB = 1ull << 30;

static int text(char *to, unsigned size, const char *from)
{
    snprintf(to, size, "%s", from);
    return OK;
}

/* --- system */

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return OK; }
int nvmlInit_v2(void) { ENTER(NULL); return OK; }
int nvmlShutdown(void) { ENTER(NULL); return OK; }
const char *nvmlErrorString(int code) { static __thread char words[32]; snprintf(words, sizeof words, "fake error %d", code); return words; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { ENTER(NULL); return text(to, size, settings()->driver); }
int nvmlSystemGetNVMLVersion(char *to, unsigned size) { ENTER(NULL); return text(to, size, "12.550.54.15"); }
int nvmlSystemGetCudaDriverVersion(int *version) { ENTER(NULL); *version = 12040; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER(NULL); *version = 12040; return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NULL); *count = (unsigned)settings()->gpus; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
    if ((int)index >= settings()->gpus)
        return INVALID_ARGUMENT;
    *device = device_at((int)index, -1);
    ENTER(*device);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
    int index;
    if (sscanf(uuid, "GPU-fake0000-0000-0000-0000-%12d", &index) != 1 || index >= settings()->gpus)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2((unsigned)index, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device)
{
    unsigned bus;
    if (sscanf(bus_id, "%*x:%x", &bus) != 1 || bus < 0x10)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(bus - 0x10, device);
}

/* --- identity */

int nvmlDeviceGetName(struct device *d, char *to, unsigned size)
{
    ENTER(d);
    return text(to, size, d->mig >= 0 ? "NVIDIA H100 80GB HBM3 MIG 1g.10gb" : settings()->unified ? "NVIDIA GB10" : "NVIDIA H100 80GB HBM3");
}

int nvmlDeviceGetUUID(struct device *d, char *to, unsigned size)
{
    ENTER(d);
    if (d->mig >= 0)
        snprintf(to, size, "MIG-fake0000-0000-0000-%04d-%012d", d->mig, d->gpu);
    else
        snprintf(to, size, "GPU-fake0000-0000-0000-0000-%012d", d->gpu);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *pci)
{
    ENTER(d);
    memset(pci, 0, sizeof *pci);
    pci->domain = (unsigned)setting(d->gpu, "domain", 0);
    pci->bus = (unsigned)setting(d->gpu, "bus", 0x10 + d->gpu);
    pci->id = 0x233010de;
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:00.0", pci->domain & 0xFFFF, pci->bus & 0xFF);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:00.0", pci->domain, pci->bus);
    return OK;
}

int nvmlDeviceGetIndex(struct device *d, unsigned *v) { ENTER(d); *v = (unsigned)d->gpu; return OK; }
int nvmlDeviceGetMinorNumber(struct device *d, unsigned *v) { ENTER(d); *v = (unsigned)d->gpu; return OK; }
int nvmlDeviceGetVbiosVersion(struct device *d, char *to, unsigned size) { ENTER(d); return text(to, size, "96.00.74.00.01"); }
int nvmlDeviceGetSerial(struct device *d, char *to, unsigned size) { ENTER(d); snprintf(to, size, "16500000000%02d", d->gpu); return OK; }
int nvmlDeviceGetArchitecture(struct device *d, unsigned *v) { ENTER(d); *v = 9; return OK; }
int nvmlDeviceGetCudaComputeCapability(struct device *d, int *major, int *minor) { ENTER(d); *major = 9; *minor = 0; return OK; }
int nvmlDeviceGetNumaNodeId(struct device *d, unsigned *v) { ENTER(d); *v = d->gpu < 4 ? 0 : 1; return OK; }
int nvmlDeviceGetPersistenceMode(struct device *d, int *v) { ENTER(d); *v = 1; return OK; }
int nvmlDeviceGetEccMode(struct device *d, int *now, int *pending) { ENTER(d); *now = *pending = 1; return OK; }
int nvmlDeviceGetComputeMode(struct device *d, int *v) { ENTER(d); *v = 0; return OK; }
int nvmlDeviceGetDisplayActive(struct device *d, int *v) { ENTER(d); *v = 0; return OK; }
int nvmlDeviceGetDisplayMode(struct device *d, int *v) { ENTER(d); *v = 0; return OK; }

int nvmlDeviceGetCpuAffinity(struct device *d, unsigned words, unsigned long *set)
{
    ENTER(d);
    memset(set, 0, words * sizeof *set);
    set[0] = d->gpu < 4 ? 0x3 : 0xc;
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(struct device *a, struct device *b, int *level)
{
    ENTER(a);
    *level = (a->gpu < 4) == (b->gpu < 4) ? 40 : 50;
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *d, unsigned link, int *type) { ENTER(d); (void)link; *type = 2; return OK; }
int nvmlDeviceGetNvLinkState(struct device *d, unsigned link, int *on) { ENTER(d); (void)link; *on = 1; return OK; }

/* --- load */

int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *u)
{
    ENTER(d);
    if (settings()->mig[d->gpu])
        return NOT_SUPPORTED;
    u->gpu = (unsigned)setting(d->gpu, "utilization", wave(d->gpu));
    u->memory = (unsigned)setting(d->gpu, "memory_utilization", wave(d->gpu) / 2);
    return OK;
}

static uint64_t total_memory(const struct device *d) { return d->mig >= 0 ? 10 * GIB : 80 * GIB; }
static uint64_t used_memory(const struct device *d) { return (uint64_t)setting(d->gpu, "memory_used", (long long)(d->mig >= 0 ? GIB : 40 * GIB)); }

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m)
{
    ENTER(d);
    if (settings()->unified == 1)
        return NOT_SUPPORTED;
    memset(m, 0, sizeof *m);
    if (settings()->unified)
        return OK;
    *m = (struct memory){total_memory(d), total_memory(d) - used_memory(d) - GIB, used_memory(d) + GIB};    /* v1 counts the reserved part as used */
    return OK;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *m)
{
    ENTER(d);
    if (settings()->unified == 1)
        return NOT_SUPPORTED;
    uint64_t total = settings()->unified ? 0 : total_memory(d);
    *m = (struct memory_v2){m->version, total, total ? GIB : 0, total ? total - used_memory(d) - GIB : 0, total ? used_memory(d) : 0};
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, uint64_t *v) { ENTER(d); *v = (uint64_t)setting(d->gpu, "reasons", 4); return OK; }
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, uint64_t *v) { ENTER(d); *v = (uint64_t)setting(d->gpu, "reasons", 4); return OK; }
int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *v) { ENTER(d); (void)sensor; *v = (unsigned)setting(d->gpu, "temperature", 30 + wave(d->gpu) / 2); return OK; }
int nvmlDeviceGetClockInfo(struct device *d, int type, unsigned *v) { ENTER(d); *v = type == 2 ? 2619 : (unsigned)setting(d->gpu, "sm_clock", 1980 - wave(d->gpu)); return OK; }
int nvmlDeviceGetMaxClockInfo(struct device *d, int type, unsigned *v) { ENTER(d); *v = type == 2 ? 2619 : 1980; return OK; }
int nvmlDeviceGetPerformanceState(struct device *d, int *v) { ENTER(d); *v = 0; return OK; }
int nvmlDeviceGetFanSpeed(struct device *d, unsigned *v) { ENTER(d); (void)v; return NOT_SUPPORTED; }
int nvmlDeviceGetEncoderUtilization(struct device *d, unsigned *v, unsigned *us) { ENTER(d); *v = (unsigned)setting(d->gpu, "encoder", 0); *us = 1000000; return OK; }
int nvmlDeviceGetDecoderUtilization(struct device *d, unsigned *v, unsigned *us) { ENTER(d); *v = (unsigned)setting(d->gpu, "decoder", 7); *us = 1000000; return OK; }
int nvmlDeviceGetPowerUsage(struct device *d, unsigned *v) { ENTER(d); *v = (unsigned)setting(d->gpu, "power_mw", 150000 + wave(d->gpu) * 5000); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(struct device *d, uint64_t *v) { ENTER(d); *v = now_us() / 1000u * 400u; return OK; }
int nvmlDeviceGetPowerManagementLimit(struct device *d, unsigned *v) { ENTER(d); *v = 700000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(struct device *d, unsigned *v) { ENTER(d); *v = 700000; return OK; }
int nvmlDeviceGetPowerManagementLimitConstraints(struct device *d, unsigned *low, unsigned *high) { ENTER(d); *low = 200000; *high = 700000; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned *v) { ENTER(d); *v = 650000; return OK; }
int nvmlDeviceGetTemperatureThreshold(struct device *d, int which, unsigned *v) { ENTER(d); *v = which == 0 ? 95 : which == 1 ? 90 : 98; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(struct device *d, unsigned *v) { ENTER(d); *v = 5; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(struct device *d, unsigned *v) { ENTER(d); *v = (unsigned)setting(d->gpu, "pcie_width", 16); return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(struct device *d, unsigned *v) { ENTER(d); *v = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(struct device *d, unsigned *v) { ENTER(d); *v = 16; return OK; }
int nvmlDeviceGetPcieThroughput(struct device *d, int which, unsigned *kib) { ENTER(d); *kib = which ? 5000 : 3000; return OK; }
int nvmlDeviceGetTotalEccErrors(struct device *d, int type, int counter, uint64_t *v) { ENTER(d); (void)type; (void)counter; *v = 0; return OK; }
int nvmlDeviceGetBAR1MemoryInfo(struct device *d, struct memory *m) { ENTER(d); *m = (struct memory){128 * GIB, 127 * GIB, GIB}; return OK; }

/* --- MIG */

int nvmlDeviceGetMigMode(struct device *d, unsigned *now, unsigned *pending) { ENTER(d); *now = *pending = settings()->mig[d->gpu] > 0; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *v) { ENTER(d); *v = settings()->mig[d->gpu] ? MAX_MIG : 0; return OK; }
int nvmlDeviceIsMigDeviceHandle(struct device *d, unsigned *v) { ENTER(d); *v = d->mig >= 0; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned index, struct device **mig)
{
    ENTER(d);
    if ((int)index >= settings()->mig[d->gpu])
        return NOT_FOUND;
    *mig = device_at(d->gpu, (int)index);
    return OK;
}

int nvmlDeviceGetAttributes_v2(struct device *d, struct device_attributes *a)
{
    ENTER(d);
    *a = (struct device_attributes){16, 1, 1, 0, 1, 0, 1, 1, 9856};
    return OK;
}

/* --- processes */

static int list(struct device *d, enum kind kind, unsigned *count, struct process_info *to)
{
    const struct control *c = settings();
    unsigned room = *count, n = 0;
    for (int i = 0; i < c->processes; i++) {
        const struct process *p = &c->process[i];
        if (p->kind != kind || (p->gpu != d->gpu && p->gpu != EVERY_GPU))
            continue;
        if (to && n < room)
            to[n] = (struct process_info){(unsigned)p->pid, p->bytes, 0xFFFFFFFFu, 0xFFFFFFFFu};
        n++;
    }
    *count = n;
    return n == 0 || (to && n <= room) ? OK : INSUFFICIENT_SIZE;
}

#ifdef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, COMPUTE, n, to); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, GRAPHICS, n, to); }
int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, MPS, n, to); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, COMPUTE, n, to); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, GRAPHICS, n, to); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process_info *to) { ENTER(d); return list(d, MPS, n, to); }
#endif

int nvmlDeviceGetProcessUtilization(struct device *d, struct process_sample *to, unsigned *count, uint64_t since)
{
    ENTER(d);
    (void)since;
    const struct control *c = settings();
    unsigned room = *count, n = 0;
    for (int i = 0; i < c->processes; i++) {
        const struct process *p = &c->process[i];
        if (p->sm < 0 || (p->gpu != d->gpu && p->gpu != EVERY_GPU))
            continue;
        if (to && n < room)
            to[n] = (struct process_sample){(unsigned)p->pid, now_us(), (unsigned)p->sm, 0, 0, 0};
        n++;
    }
    *count = n;
    return n == 0 ? NOT_FOUND : to && n <= room ? OK : INSUFFICIENT_SIZE;
}

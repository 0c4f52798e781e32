/* A fake libnvidia-ml.so.1: enough of NVML for an unmodified pynvml, and for every fault gpuwatch must survive.
 *
 * Build it with build.py and point LD_LIBRARY_PATH at the folder. Eight H100 GPUs by default. Two environment variables:
 *   FAKE_NVML_CONTROL  a text file, read again whenever it changes, one setting a line (below)
 *   FAKE_NVML_COUNTS   a file in which the calls are counted, per function and GPU (struct count_row)
 *
 * Settings. GPU is an index, `*` for all of them, `-` for calls that name no GPU; CALL is a function's name or `*`.
 *   gpus N                     how many there are (8)
 *   latency_us N               every call takes so long (0)
 *   hang GPU CALL              the call blocks until the line is gone from the file
 *   error GPU CODE CALL        the call returns this nvmlReturn_t
 *   field GPU FIELD CODE       this field of nvmlDeviceGetFieldValues carries this nvmlReturn
 *   raw GPU FIELD VALUE        this field carries this 64-bit value
 *   set GPU NAME VALUE         utilization memory_utilization memory_used temperature power_mw sm_clock reasons encoder decoder,
 *                              domain bus (of the PCI address) pcie_width
 *   process GPU PID BYTES KIND SM     KIND is compute, graphics or mps; SM is a percentage, -1 for no sample
 *   xid GPU CODE SERIAL        an Xid event; each new serial number is told once
 *   mig GPU N                  MIG mode with N instances
 *   unified MODE               memory is the host's (GB10): 1 not supported, 2 a total of 0
 *   no_gpm 1                   no GPM, as before Hopper
 *   driver VERSION             as nvmlSystemGetDriverVersion says it (550.54.15)
 *
 * Counters advance with the wall clock at fixed rates (see fields.c), so that every rate has one right answer.
 * With -DOLD_DRIVER the symbols that came after driver 470 are missing.
 */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stdint.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
    MAX_GPUS = 64, MAX_MIG = 7, MAX_RULES = 256, NO_GPU = -1, EVERY_GPU = -2,
};

enum kind { COMPUTE, GRAPHICS, MPS };

struct device { int gpu, mig; };                       /* mig is -1 for a whole GPU */
struct rule { int gpu, code; char call[64]; };
struct field_rule { int gpu, field, code; uint64_t raw; };
struct setting { int gpu; char name[32]; long long value; };
struct process { int gpu, pid, sm; uint64_t bytes; enum kind kind; };
struct xid { int gpu, code; long serial; };

struct control {
    int gpus, latency_us, unified, no_gpm, mig[MAX_GPUS];
    char driver[64];
    int hangs, errors, fields, raws, settings, processes, xids;
    struct rule hang[MAX_RULES], error[MAX_RULES];
    struct field_rule field[MAX_RULES], raw[MAX_RULES];
    struct setting setting[MAX_RULES];
    struct process process[MAX_RULES];
    struct xid xid[MAX_RULES];
};

/* The settings as they are now; a copy stays valid however often the file changes. */
const struct control *settings(void);
/* Count the call, wait as told, and say what it must return: OK lets it go on. */
int enter(const char *call, const struct device *device);
/* A value set by the control file, else `otherwise`. */
long long setting(int gpu, const char *name, long long otherwise);
/* A wave that everybody can predict: 0..100, by GPU and second. */
int wave(int gpu);
uint64_t now_us(void);
struct device *device_at(int gpu, int mig);

#define ENTER(device) do { int early = enter(__func__, device); if (early) return early; } while (0)

#endif

/* nvmlDeviceGetFieldValues: counters that advance with the wall clock, and the health counters. See fake.h. */
#include "fake.h"

enum { LINKS = 18, ANY_LINK = -1, U64 = 3, U32 = 1 };

struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency_us;
    int type, result;
    union { double d; uint32_t u32; uint64_t u64; } value;
};

/* Units a second since 1970, so that a rate is exactly this number. NVLink in KiB over all links, PCIe in bytes, energy in mJ, throttle in ns. */
static uint64_t advancing(uint64_t us, uint64_t per_second)
{
    return us / 1000000u * per_second + us % 1000000u * per_second / 1000000u;
}

static int counter(int gpu, int field, int scope, uint64_t us, uint64_t *value)
{
    uint64_t links = scope == ANY_LINK ? LINKS : 1;
    switch (field) {
    case 83: *value = advancing(us, 400000u + (uint64_t)gpu * 1000u) % 1000000000000ull; return OK;
    case 74: *value = advancing(us, gpu == 2 ? 250000000u : 0); return OK;
    case 75: case 76: case 269: case 270: case 271: *value = 0; return OK;
    case 138: *value = links * advancing(us, 1000u * (uint64_t)(gpu + 1)); return OK;
    case 139: *value = links * advancing(us, 2000u * (uint64_t)(gpu + 1)); return OK;
    case 197: *value = advancing(us, 3000000u * (uint64_t)(gpu + 1)); return OK;
    case 198: *value = advancing(us, 5000000u * (uint64_t)(gpu + 1)); return OK;
    default: return NOT_SUPPORTED;
    }
}

static int reading(int gpu, int field, uint64_t *value)
{
    switch (field) {
    case 82: *value = 61; return OK;
    case 91: *value = LINKS; return OK;
    case 165: *value = 1; return OK;
    case 185: case 186: *value = (uint64_t)setting(gpu, "power_mw", 150000 + wave(gpu) * 5000); return OK;
    case 190: *value = 700000; return OK;
    case 3: case 4: case 5: case 6: *value = 0; return OK;
    case 142: case 143: case 144: case 145: *value = 0; return OK;
    case 94: *value = (uint64_t)gpu; return OK;
    case 161: case 162: case 163: *value = 0; return OK;
    case 230: *value = 0; return OK;
    default: return NOT_SUPPORTED;
    }
}

static int is_32_bit(int field)
{
    return field == 82 || field == 91 || field == 165 || field == 185 || field == 186 || field == 190;
}

static int applies(int rule_gpu, int gpu)
{
    return rule_gpu == gpu || rule_gpu == EVERY_GPU;
}

static void fill(int gpu, struct field_value *v)
{
    const struct control *c = settings();
    uint64_t us = now_us(), raw = 0;
    int field = (int)v->field;
    v->timestamp = (int64_t)us;
    v->latency_us = 3;
    v->type = is_32_bit(field) ? U32 : U64;
    v->result = counter(gpu, field, (int)v->scope, us, &raw);
    if (v->result)
        v->result = reading(gpu, field, &raw);
#ifdef OLD_DRIVER
    if (field > 140)
        v->result = INVALID_ARGUMENT;
#endif
    for (int i = 0; i < c->raws; i++)
        if (applies(c->raw[i].gpu, gpu) && c->raw[i].field == field) {
            raw = c->raw[i].raw;
            v->result = OK;
        }
    for (int i = 0; i < c->fields; i++)
        if (applies(c->field[i].gpu, gpu) && c->field[i].field == field)
            v->result = c->field[i].code;
    v->value.u64 = is_32_bit(field) ? 0xABCD000000000000ull : 0;    /* the upper half is rubbish, as the real one leaves it */
    if (is_32_bit(field))
        v->value.u32 = (uint32_t)raw;
    else
        v->value.u64 = raw;
}

int nvmlDeviceGetFieldValues(struct device *device, int n, struct field_value *values)
{
    ENTER(device);
    for (int i = 0; i < n; i++)
        fill(device->gpu, &values[i]);
    return OK;
}

/* A stand-in for libnvidia-ml.so.1, the library of NVIDIA's driver, where there is no GPU.
 *
 * It reads its state from the file that NVML_STAND_IN names, at every call, one device a line:
 *
 *   index uuid MiB used-MiB busy-percent lost mig pids name
 *   0 GPU-aaaa 81920 100 35 0 0 - NVIDIA A100-SXM4-80GB
 *   0:1 MIG-bbbb 9728 20 0 0 0 4242,4243 NVIDIA A100-SXM4-40GB MIG 1g.10gb
 *
 * `lost` is the code that every question about the device is answered with, 0 for none (15: the GPU is lost). A line
 * `-` alone means that the driver is not loaded. A line whose index has a colon is a slice of a device with `mig` 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int parent, slice, lost, mig; unsigned busy; unsigned long long total, used; char uuid[96], pids[512], name[96]; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, NOT_LOADED = 9 };
#define MOST 64
static Device devices[MOST];
static int count = -1;

static int load(void) {
    const char *path = getenv("NVML_STAND_IN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1024], index[32];
    count = -1;
    if (!file) return NOT_LOADED;
    count = 0;
    while (count < MOST && fgets(line, sizeof line, file)) {
        Device *d = &devices[count];
        int read = 0;
        if (line[0] == '-') { count = -1; break; }
        if (sscanf(line, "%31s %95s %llu %llu %u %d %d %511s %n", index, d->uuid, &d->total, &d->used, &d->busy, &d->lost,
                   &d->mig, d->pids, &read) < 8) continue;
        snprintf(d->name, sizeof d->name, "%s", line + read);
        d->name[strcspn(d->name, "\n")] = 0;
        char *colon = strchr(index, ':');
        d->parent = atoi(index);
        d->slice = colon ? atoi(colon + 1) : -1;
        count++;
    }
    fclose(file);
    return count < 0 ? NOT_LOADED : SUCCESS;
}

/* A handle is the place of the device, plus 1. The file may have changed since: a device that is gone is lost. */
static int find(int parent, int slice) {
    for (int place = 0; place < count; place++)
        if (devices[place].parent == parent && devices[place].slice == slice) return place;
    return -1;
}
static int of(void *handle, Device **found) {
    long number = (long)handle, parent = (number >> 8) - 1, slice = (number & 255) - 1;
    if (load()) return UNINITIALIZED;
    int place = find((int)parent, (int)slice);
    if (place < 0) return 15;
    *found = &devices[place];
    return devices[place].lost;
}
static void *handle_of(int parent, int slice) { return (void *)(long)(((parent + 1) << 8) | (slice + 1)); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return load(); }
int nvmlInit_v2(void) { return load(); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) {
    return code == 15 ? "GPU is lost" : code == NOT_LOADED ? "Driver Not Loaded" : code == NOT_SUPPORTED ? "Not Supported" : "Unknown Error";
}
int nvmlDeviceGetCount_v2(unsigned *found) {
    int error = load(), whole = 0;
    if (error) return error;
    for (int place = 0; place < count; place++) whole += devices[place].slice < 0;
    *found = (unsigned)whole;
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int error = load();
    if (error) return error;
    int place = find((int)index, -1);
    if (place < 0) return INVALID;
    *handle = handle_of((int)index, -1);
    return devices[place].lost;
}
static int text(void *handle, char *to, unsigned length, int name) {
    Device *d;
    int error = of(handle, &d);
    if (error) return error;
    snprintf(to, length, "%s", name ? d->name : d->uuid);
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *handle, char *to, unsigned length) { return text(handle, to, length, 0); }
int nvmlDeviceGetName(void *handle, char *to, unsigned length) { return text(handle, to, length, 1); }
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
    Device *d;
    int error = of(handle, &d);
    if (error) return error;
    memory->total = d->total << 20;
    memory->used = d->used << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *handle, Utilization *use) {
    Device *d;
    int error = of(handle, &d);
    if (error) return error;
    if (d->slice >= 0) return NOT_SUPPORTED; /* as of real slices */
    use->gpu = d->busy;
    use->memory = 0;
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *room, Process *found) {
    Device *d;
    int error = of(handle, &d);
    unsigned there = 0;
    char pids[512], *rest = pids, *one;
    if (error) return error;
    snprintf(pids, sizeof pids, "%s", d->pids[0] == '-' ? "" : d->pids);
    while ((one = strtok_r(rest, ",", &rest))) {
        if (found && there < *room) found[there] = (Process){(unsigned)atoi(one), 0, 0, 0};
        there++;
    }
    error = there > *room || (there && !found) ? INSUFFICIENT_SIZE : SUCCESS;
    *room = there;
    return error;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    Device *d;
    int error = of(handle, &d);
    if (error) return error;
    *current = *pending = (unsigned)d->mig;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *most) {
    Device *d;
    int error = of(handle, &d);
    *most = 7;
    return error;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
    Device *d;
    int error = of(handle, &d);
    if (error) return error;
    if (find(d->parent, (int)index) < 0) return NOT_FOUND;
    *slice = handle_of(d->parent, (int)index);
    return SUCCESS;
}

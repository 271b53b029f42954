#pragma once
// Shared by the fuzzers.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Its pages stay: to get and to clear others takes longer than most inputs.
static inline void fuzz_fill(int fd, const uint8_t *data, size_t size)
{
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size) < 0)
        abort();
}

// The name of a file with these bytes, until the next call. It lies in memory.
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    fuzz_fill(fd, data, size);
    return path;
}

// A hash of the bytes: what a fuzzer chooses by it varies, and a crash can be repeated.
static inline uint32_t fuzz_hash(const uint8_t *data, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 16777619u;
    return h;
}

// A folder of this process, in memory if the system has such; created once.
static inline const char *fuzz_folder(void)
{
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof(path), "%s/tachy-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(path))
            abort();
    }
    return path;
}

static inline void fuzz_write(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    fuzz_fill(fd, data, size);
    close(fd);
}

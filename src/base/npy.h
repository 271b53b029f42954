#pragma once
#include <tachy/tensor.h>

// NumPy's .npy files: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
// Little-endian numbers, in C order.

struct tachy_npy {
    char kind; // 'f', 'i' or 'u'
    int size;  // bytes per element: 1, 2, 4 or 8
    int rank;  // 0..TACHY_MAX_RANK
    int64_t shape[TACHY_MAX_RANK];
    void *data; // dense; of a file that was read: free with tachy_npy_free()
    size_t bytes;
    void *file; // what `data` lies in
};

// The file's bytes before its data; returns how many. They are 128 for an array of two extents, whatever these are.
enum { TACHY_NPY_HEADER = 512 };
size_t tachy_npy_header(char header[TACHY_NPY_HEADER], const struct tachy_npy *a);
// Writes under a temporary name and renames. TACHY_ERR_IO, TACHY_ERR_NO_SPACE.
int tachy_npy_write(const char *path, const struct tachy_npy *a, const struct tachy_log *log);
// TACHY_ERR_FORMAT names the file and what is wrong with it; TACHY_ERR_UNSUPPORTED: another
// type of numbers, or Fortran's order. *a is zeroed on failure.
int tachy_npy_read(struct tachy_npy *a, const char *path, const struct tachy_log *log);
// As above, for a file in memory, which is modified and which `a` then points into.
int tachy_npy_parse(struct tachy_npy *a, char *data, size_t size, const char *name,
                    const struct tachy_log *log);
void tachy_npy_free(struct tachy_npy *a);

// A view of a dense host tensor.
struct tachy_npy tachy_npy_of(const struct tachy_tensor *t);
// True if the array has the tensor's type and shape.
bool tachy_npy_fits(const struct tachy_npy *a, const struct tachy_tensor *t);

// npy_compare.c
struct tachy_npy_difference {
    bool identical;
    double max; // infinite if one is NaN and the other is not
    double mse, range; // mean square of the difference; of the saved values
};
// Adds what differs between two arrays of one type and size to `d`; start with
// identical = true.
void tachy_npy_compare(struct tachy_npy_difference *d, const struct tachy_npy *saved, const void *now);
// 20 log10(range / rms); infinite for identical ones.
double tachy_npy_psnr(const struct tachy_npy_difference *d);

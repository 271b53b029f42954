#include "cuda/loader.h"

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const cu_files[] = {"libcuda.so.1", NULL};
static const char *const nvml_files[] = {"libnvidia-ml.so.1", NULL};
static const char *const cupti_files[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
static const char *const cublas_files[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                           NULL};
static const char *const cublaslt_files[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
static const char *const cudnn_files[] = {"libcudnn.so.9", NULL};
static const char *const cuvid_files[] = {"libnvcuvid.so.1", NULL};
static const char *const nvjpeg_files[] = {"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so", NULL};

struct symbol {
    const char *symbol;
    size_t offset;
};
#define ROW(table, member, symbol) {symbol, offsetof(struct table, member)},
#define CU_ROW(member, symbol, args) ROW(tachy_cu, member, symbol)
#define NVML_ROW(member, symbol, args) ROW(tachy_nvml, member, symbol)
#define CUPTI_ROW(member, symbol, args) ROW(tachy_cupti, member, symbol)
#define CUBLAS_ROW(member, symbol, args) ROW(tachy_cublas, member, symbol)
#define CUBLASLT_ROW(member, symbol, args) ROW(tachy_cublaslt, member, symbol)
#define CUDNN_ROW(member, symbol, args) ROW(tachy_cudnn, member, symbol)
#define CUVID_ROW(member, symbol, args) ROW(tachy_cuvid, member, symbol)
#define NVJPEG_ROW(member, symbol, args) ROW(tachy_nvjpeg_library, member, symbol)
static const struct symbol cu_symbols[] = {TACHY_CU_CALLS(CU_ROW)};
static const struct symbol nvml_symbols[] = {TACHY_NVML_CALLS(NVML_ROW)};
static const struct symbol cupti_symbols[] = {TACHY_CUPTI_CALLS(CUPTI_ROW)};
static const struct symbol cublas_symbols[] = {TACHY_CUBLAS_CALLS(CUBLAS_ROW)};
static const struct symbol cublaslt_symbols[] = {TACHY_CUBLASLT_CALLS(CUBLASLT_ROW)};
static const struct symbol cudnn_symbols[] = {TACHY_CUDNN_CALLS(CUDNN_ROW)};
static const struct symbol cuvid_symbols[] = {TACHY_CUVID_CALLS(CUVID_ROW)};
static const struct symbol nvjpeg_symbols[] = {TACHY_NVJPEG_CALLS(NVJPEG_ROW)};

#define DRIVER_GET "it comes with NVIDIA's driver (Debian: apt-get install nvidia-driver)"
#define SYMBOLS(list) (const void *)(list), TACHY_ARRAY_SIZE(list)
static const struct tachy_library libraries[] = {
    {"cuda", cu_files, "the CUDA driver", DRIVER_GET, false, SYMBOLS(cu_symbols)},
    {"nvml", nvml_files, "NVML", DRIVER_GET, false, SYMBOLS(nvml_symbols)},
    {"cupti", cupti_files, "CUPTI",
     "it comes with the CUDA toolkit, or `pip install nvidia-cuda-cupti`; LD_LIBRARY_PATH or "
     "CUDA_HOME says where it lies",
     true, SYMBOLS(cupti_symbols)},
    {"cublas", cublas_files, "cuBLAS",
     "it comes with the CUDA toolkit, or `pip install nvidia-cublas`; LD_LIBRARY_PATH or CUDA_HOME "
     "says where it lies",
     true, SYMBOLS(cublas_symbols)},
    {"cublaslt", cublaslt_files, "cuBLASLt",
     "it comes with the CUDA toolkit, or `pip install nvidia-cublas`; LD_LIBRARY_PATH or CUDA_HOME "
     "says where it lies",
     true, SYMBOLS(cublaslt_symbols)},
    {"cudnn", cudnn_files, "cuDNN", "`pip install nvidia-cudnn-cu13`; LD_LIBRARY_PATH or CUDA_HOME says where it lies", true,
     SYMBOLS(cudnn_symbols)},
    {"nvcuvid", cuvid_files, "NVDEC's library",
     "it comes with NVIDIA's driver (Debian: apt-get install libnvcuvid1; in a container the "
     "capability `video`)",
     false, SYMBOLS(cuvid_symbols)},
    {"nvjpeg", nvjpeg_files, "nvJPEG",
     "it comes with the CUDA toolkit, or `pip install nvidia-nvjpeg`; LD_LIBRARY_PATH or CUDA_HOME "
     "says where it lies",
     true, SYMBOLS(nvjpeg_symbols)},
};
enum library_id { LIB_CU, LIB_NVML, LIB_CUPTI, LIB_CUBLAS, LIB_CUBLASLT, LIB_CUDNN, LIB_CUVID, LIB_NVJPEG, LIB_COUNT };

// Libraries loaded in this process. A table is written once, before its `path` is set.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *paths[LIB_COUNT];
static struct tachy_cu cu_table;
static struct tachy_nvml nvml_table;
static struct tachy_cupti cupti_table;
static struct tachy_cublas cublas_table;
static struct tachy_cublaslt cublaslt_table;
static struct tachy_cudnn cudnn_table;
static struct tachy_cuvid cuvid_table;
static struct tachy_nvjpeg_library nvjpeg_library_table;
static void *const tables[LIB_COUNT] = {&cu_table, &nvml_table, &cupti_table, &cublas_table,
                                         &cublaslt_table, &cudnn_table, &cuvid_table, &nvjpeg_library_table};

static void *try_folder(const char *root, const char *below, const char *file)
{
    char *path = root && *root ? tachy_asprintf("%s/%s/%s", root, below, file) : NULL;
    void *handle = path && access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    free(path);
    return handle;
}

static void *try_toolkit(const char *file)
{
    static const char *const below[] = {"lib64", "extras/CUPTI/lib64", "lib"};
    const char *const roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t r = 0; r < TACHY_ARRAY_SIZE(roots); r++) {
        for (size_t b = 0; b < TACHY_ARRAY_SIZE(below); b++) {
            void *handle = try_folder(roots[r], below[b], file);
            if (handle)
                return handle;
        }
    }
    return NULL;
}

static void *find(const struct tachy_library *lib)
{
    void *handle = NULL;
    for (const char *const *f = lib->files; *f && !handle; f++)
        handle = dlopen(*f, RTLD_NOW | RTLD_LOCAL);
    for (const char *const *f = lib->files; *f && !handle && lib->toolkit; f++)
        handle = try_toolkit(*f);
    return handle;
}

// The first function that must be there and is not; NULL: all are.
static const char *fill(const struct tachy_library *lib, void *handle, void *table)
{
    for (size_t i = 0; i < lib->nb_symbols; i++) {
        const char *name = lib->symbols[i].symbol;
        bool optional = *name == '?';
        void *fn = dlsym(handle, name + optional);
        if (!fn && !optional)
            return name;
        memcpy((char *)table + lib->symbols[i].offset, &fn, sizeof(fn));
    }
    return NULL;
}

int tachy_library_open(const struct tachy_library *lib, void *table, char **path, char *why,
                       size_t why_size)
{
    void *handle = find(lib);
    *path = NULL;
    if (!handle) {
        snprintf(why, why_size, "%s (%s) was not found: %s", lib->what, lib->files[0], lib->get);
        return TACHY_ERR_UNAVAILABLE;
    }
    const char *missing = fill(lib, handle, table);
    if (missing) {
        snprintf(why, why_size, "%s (%s) has no function %s, so it is too old: %s", lib->what,
                 lib->files[0], missing, lib->get);
        dlclose(handle);
        return TACHY_ERR_UNAVAILABLE;
    }
    Dl_info info;
    void *first;
    memcpy(&first, (char *)table + lib->symbols[0].offset, sizeof(first));
    bool known = first && dladdr(first, &info) && info.dli_fname;
    *path = tachy_asprintf("%s", known ? info.dli_fname : lib->files[0]);
    return *path ? TACHY_OK : TACHY_ERR_NOMEM;
}

const char *tachy_cu_text(const struct tachy_cu *cu, int status, char *buf, size_t size)
{
    const char *name = NULL, *text = NULL;
    cu->error_name(status, &name);
    cu->error_text(status, &text);
    snprintf(buf, size, "%s (%s, %d)", text ? text : "unknown error", name ? name : "?", status);
    return buf;
}

int tachy_cu_check(const struct tachy_cu *cu, int status, const struct tachy_log *log,
                   const char *what)
{
    char text[160];
    if (status == CUDA_OK)
        return TACHY_OK;
    tachy_cu_text(cu, status, text, sizeof(text));
    if (status == CUDA_OUT_OF_MEMORY)
        return tachy_fail(log, TACHY_ERR_NOMEM, "%s: CUDA says: %s; close what else uses the GPU, or use fewer workers or "
                          "smaller pictures", what, text);
    return tachy_fail(log, TACHY_ERR_EXTERNAL, "%s: CUDA says: %s; run it again, and should it fail every time, "
                      "--device cpu works without the GPU", what, text);
}

int tachy_cu_check_memory(const struct tachy_cu *cu, int status, const struct tachy_log *log)
{
    return status == CUDA_OUT_OF_MEMORY ? TACHY_ERR_NOMEM : tachy_cu_check(cu, status, log, "memory of the GPU");
}

// Under the lock.
static int load(enum library_id id, char *why, size_t size)
{
    const struct tachy_library *lib = &libraries[id];
    char *path, text[160];
    int err = tachy_library_open(lib, tables[id], &path, why, size);
    if (err < 0)
        return err;
    int status = id == LIB_CU ? cu_table.init(0) : 0;
    if (status) { // the library stays: others may have been given it as well
        snprintf(why, size, "%s: cuInit fails: %s; does nvidia-smi list a GPU?", path,
                 tachy_cu_text(&cu_table, status, text, sizeof(text)));
        free(path);
        return TACHY_ERR_UNAVAILABLE;
    }
    paths[id] = path;
    return TACHY_OK;
}

static int get(enum library_id id, enum tachy_log_level level, const struct tachy_log *log)
{
    char why[512] = "out of memory";
    pthread_mutex_lock(&lock);
    int err = paths[id] ? TACHY_OK : load(id, why, sizeof(why));
    pthread_mutex_unlock(&lock);
    if (err < 0)
        tachy_msg(log, level, "%s", why);
    return err;
}

#define LOAD(name, id)                                                                             \
    int tachy_##name##_load(const struct tachy_##name **out, enum tachy_log_level level,           \
                            const struct tachy_log *log)                                           \
    {                                                                                              \
        int err = get(id, level, log);                                                             \
        *out = err == TACHY_OK ? &name##_table : NULL;                                             \
        return err;                                                                                \
    }
LOAD(cu, LIB_CU)
LOAD(nvml, LIB_NVML)
LOAD(cupti, LIB_CUPTI)
LOAD(cublas, LIB_CUBLAS)
LOAD(cublaslt, LIB_CUBLASLT)
LOAD(cudnn, LIB_CUDNN)
LOAD(cuvid, LIB_CUVID)
LOAD(nvjpeg_library, LIB_NVJPEG)

const char *tachy_nvml_reason(int bit)
{
    static const char *const reasons[NVML_THROTTLE_REASONS] = {
        "idle",           "application clocks", "power cap",        "hardware slowdown",
        "sync boost",     "software thermal",   "hardware thermal", "power brake",
        "display clocks", "board limit",        "reliability",
    };
    return reasons[bit];
}

const char *tachy_cuda_library_path(const char *name)
{
    const char *path = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < LIB_COUNT; i++)
        if (!strcmp(libraries[i].name, name))
            path = paths[i];
    pthread_mutex_unlock(&lock);
    return path;
}

#include "cuda/nvtx.h"

#include "base/base.h"
#include "cuda/abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

// NVTX is an interface between a program and at most one tool, so what the tool writes here is
// the process's. Written once in init(), under `once`; read by everybody afterwards.
typedef void (*any_fn)(void);
static struct {
    any_fn core[NVTX_CORE_SIZE], core2[NVTX_CORE2_SIZE];
    nvtx_slot core_slot[NVTX_CORE_SIZE + 1], core2_slot[NVTX_CORE2_SIZE + 1]; // end with NULL
    any_fn unused[NVTX_CORE_SIZE]; // what a tool writes for the modules that are not called here
    nvtx_slot unused_slot[NVTX_CORE_SIZE + 1];
    void *domain;
} nvtx;
bool tachy_nvtx_on;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct tachy_log *init_log; // of the call that initialises

static int get_module(int module, nvtx_slot **slots, unsigned *n)
{
    // Slots of each module, its empty slot 0 included. A tool may insist on all of them.
    static const unsigned sizes[NVTX_MODULES] = {0, NVTX_CORE_SIZE, 9, 15, 7, NVTX_CORE2_SIZE, 7};
    if (module < 1 || module >= NVTX_MODULES)
        return 0;
    if (slots)
        *slots = module == NVTX_MODULE_CORE    ? nvtx.core_slot
                 : module == NVTX_MODULE_CORE2 ? nvtx.core2_slot
                                               : nvtx.unused_slot;
    if (n)
        *n = sizes[module];
    return 1;
}

static void set_injection_version(uint32_t version) {}

static const void *get_table(uint32_t id)
{
    static const struct nvtx_callbacks_table callbacks = {sizeof(callbacks), get_module};
    static const struct nvtx_version_table version = {sizeof(version), NVTX_API_VERSION, 0,
                                                      set_injection_version};
    if (id == NVTX_TABLE_CALLBACKS)
        return &callbacks;
    return id == NVTX_TABLE_VERSION ? &version : NULL;
}

static void create_domain(void)
{
    void *(*create)(const char *) = (void *(*)(const char *))nvtx.core2[NVTX_CORE2_DOMAIN_CREATE];
    void (*initialize)(const void *) = (void (*)(const void *))nvtx.core2[NVTX_CORE2_INITIALIZE];
    if (initialize)
        initialize(NULL);
    nvtx.domain = create ? create("tachy") : NULL;
}

static void init(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH"), *why = "";
    if (!path || !*path)
        return;
    for (int i = 1; i < NVTX_CORE_SIZE; i++) // 0 is no function
        nvtx.core_slot[i] = &nvtx.core[i];
    for (int i = 1; i < NVTX_CORE_SIZE; i++)
        nvtx.unused_slot[i] = &nvtx.unused[i];
    for (int i = 1; i < NVTX_CORE2_SIZE; i++)
        nvtx.core2_slot[i] = &nvtx.core2[i];
    int (*start)(nvtx_get_table_fn) = NULL;
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (lib)
        *(void **)&start = dlsym(lib, "InitializeInjectionNvtx2");
    if (!start)
        why = dlerror();
    // The library stays loaded either way: a tool may have started threads.
    tachy_nvtx_on = start && start(get_table);
    if (!tachy_nvtx_on) {
        tachy_msg(init_log, TACHY_LOG_WARN,
                  "NVTX_INJECTION64_PATH names %s, which is no tool for NVTX ranges%s%s", path,
                  *why ? ": " : "", why);
        return;
    }
    create_domain();
    tachy_msg(init_log, TACHY_LOG_VERBOSE, "NVTX ranges go to %s", path);
}

bool tachy_nvtx_init(const struct tachy_log *log)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards init_log
    pthread_mutex_lock(&lock);
    init_log = log;
    pthread_once(&once, init);
    init_log = NULL;
    pthread_mutex_unlock(&lock);
    return tachy_nvtx_on;
}

void tachy_nvtx_push(const char *name)
{
    int (*push)(void *, const struct nvtx_attributes *) =
        (int (*)(void *, const struct nvtx_attributes *))nvtx.core2[NVTX_CORE2_RANGE_PUSH];
    if (push)
        push(nvtx.domain, &(struct nvtx_attributes){.version = NVTX_API_VERSION,
                                                    .size = sizeof(struct nvtx_attributes),
                                                    .message_type = NVTX_MESSAGE_ASCII,
                                                    .message = name});
}

void tachy_nvtx_pop(void)
{
    int (*pop)(void *) = (int (*)(void *))nvtx.core2[NVTX_CORE2_RANGE_POP];
    if (pop)
        pop(nvtx.domain);
}

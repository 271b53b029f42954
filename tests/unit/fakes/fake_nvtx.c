// A tool that receives NVTX ranges and records them. FAKE_NVTX_FILE names a file to which every pushed range is
// appended, one per line. Built with NVIDIA's own declarations if they are installed.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HAVE_NVTX
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
typedef NvtxGetExportTableFunc_t get_table_fn;
typedef NvtxExportTableCallbacks callbacks_table;
typedef NvtxFunctionTable slots_type;
typedef nvtxEventAttributes_t attributes;
#define MODULE NVTX_CB_MODULE_CORE2
#define TABLE NVTX_ETID_CALLBACKS
#define PUSH NVTX_CBID_CORE2_DomainRangePushEx
#define POP NVTX_CBID_CORE2_DomainRangePop
#define CREATE NVTX_CBID_CORE2_DomainCreateA
#define GET_MODULE GetModuleFunctionTable
#define MESSAGE(a) (a)->message.ascii
#define IS_TEXT(a) ((a)->messageType == NVTX_MESSAGE_TYPE_ASCII && (a)->size == sizeof(attributes))
#else
typedef nvtx_get_table_fn get_table_fn;
typedef struct nvtx_callbacks_table callbacks_table;
typedef nvtx_slot *slots_type;
typedef struct nvtx_attributes attributes;
#define MODULE NVTX_MODULE_CORE2
#define TABLE NVTX_TABLE_CALLBACKS
#define PUSH NVTX_CORE2_RANGE_PUSH
#define POP NVTX_CORE2_RANGE_POP
#define CREATE NVTX_CORE2_DOMAIN_CREATE
#define GET_MODULE module
#define MESSAGE(a) (a)->message
#define IS_TEXT(a) ((a)->message_type == NVTX_MESSAGE_ASCII && (a)->size == sizeof(attributes))
#endif

static char heard[1024];
static int calls, domain;

FAKE_API int fake_nvtx_calls(const char **text)
{
    *text = heard;
    return calls;
}

static void hear(const char *sign, const char *text)
{
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof(heard) - n, "%s%s ", sign, text);
    calls++;
}

static int push(void *d, const attributes *a)
{
    const char *text = IS_TEXT(a) && d == &domain ? MESSAGE(a) : "?";
    const char *path = getenv("FAKE_NVTX_FILE");
    FILE *f = path ? fopen(path, "ae") : NULL;
    if (f) { // from several threads: a line is one write
        fprintf(f, "%s\n", text);
        fclose(f);
    } else {
        hear("+", text);
    }
    return 0;
}

static int pop(void *d)
{
    if (!getenv("FAKE_NVTX_FILE"))
        hear("-", d == &domain ? "" : "?");
    return 0;
}

static void *create(const char *name) { return strcmp(name, "tachy") ? NULL : &domain; }

FAKE_API int InitializeInjectionNvtx2(get_table_fn get_table)
{
    const callbacks_table *t = (const void *)get_table(TABLE);
    slots_type slots = NULL;
    unsigned n = 0;
    if (!t || t->GET_MODULE == NULL || !t->GET_MODULE(MODULE, &slots, &n) || n <= CREATE)
        return 0;
    *slots[PUSH] = (void (*)(void))push;
    *slots[POP] = (void (*)(void))pop;
    *slots[CREATE] = (void (*)(void))create;
    return 1;
}

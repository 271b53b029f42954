#include "stage/memory_bank.h"

#include <stdlib.h>

static size_t memory_numbers(const struct memory_sizes *s) { return (size_t)s->channels * (size_t)s->cells; }

// All numbers of a bank, which are one block of four bytes each from b->memory on.
static size_t numbers(const struct memory_sizes *s, int things)
{
    return (size_t)things * ((size_t)s->kept * memory_numbers(s) + (size_t)MEMORY_POINTERS * (size_t)s->pointer + 1) + memory_numbers(s) +
           (size_t)s->kept * (size_t)s->channels;
}

int memory_bank_begin(struct memory_bank *b, const struct memory_sizes *size, int things)
{
    float *v = calloc(numbers(size, things), sizeof(*v));
    if (!v)
        return TACHY_ERR_NOMEM;
    memory_bank_close(b);
    *b = (struct memory_bank){.size = *size, .things = things, .memory = v};
    b->pointer = b->memory + (size_t)things * (size_t)size->kept * memory_numbers(size);
    b->place = b->pointer + (size_t)things * (size_t)MEMORY_POINTERS * (size_t)size->pointer;
    b->age = b->place + memory_numbers(size);
    b->kind = (int32_t *)(void *)(b->age + (size_t)size->kept * (size_t)size->channels);
    return TACHY_OK;
}

void memory_bank_close(struct memory_bank *b)
{
    free(b->memory);
    *b = (struct memory_bank){0};
}

int memory_bank_memories(const struct memory_bank *b) { return (int)TACHY_MIN(b->frames, b->size.kept); }
int memory_bank_pointers(const struct memory_bank *b) { return (int)TACHY_MIN(b->frames, MEMORY_POINTERS); }

// Where frame `frame` (0: that of the prompts) is among `kept`.
static int slot_of(int64_t frame, int kept) { return frame && kept > 1 ? 1 + (int)((frame - 1) % (kept - 1)) : 0; }

static float *memory_at(const struct memory_bank *b, int64_t frame, int thing)
{
    return b->memory + ((size_t)slot_of(frame, b->size.kept) * (size_t)b->things + (size_t)thing) * memory_numbers(&b->size);
}

static float *pointer_at(const struct memory_bank *b, int64_t frame, int thing)
{
    return b->pointer + ((size_t)slot_of(frame, MEMORY_POINTERS) * (size_t)b->things + (size_t)thing) * (size_t)b->size.pointer;
}

// Of memory `i` of `n`, as a network reads them.
static int64_t frame_of(const struct memory_bank *b, int i, int n) { return i ? b->frames - n + i : 0; }

static float *read_places(const struct memory_bank *b, int memories, float *to)
{
    int channels = b->size.channels;
    for (int i = 0; i < memories; i++) {
        int64_t ago = i ? b->frames - frame_of(b, i, memories) : b->size.kept;
        const float *age = b->age + (ago - 1) * channels;
        for (int k = 0; k < b->size.cells * channels; k++)
            *to++ = b->place[k] + age[k % channels];
    }
    return to;
}

void memory_bank_read(const struct memory_bank *b, int first, int n, float *memories, float *pointers, float *at)
{
    int m = memory_bank_memories(b), p = memory_bank_pointers(b);
    size_t memory = memory_numbers(&b->size), pointer = (size_t)b->size.pointer;
    for (int thing = first; thing < first + n; thing++) {
        for (int i = 0; i < m; i++, memories += memory)
            memcpy(memories, memory_at(b, frame_of(b, i, m), thing), memory * sizeof(float));
        for (int i = 0; i < p; i++, pointers += pointer)
            memcpy(pointers, pointer_at(b, i ? b->frames - i : 0, thing), pointer * sizeof(float));
        at = read_places(b, m, at);
        memset(at, 0, (size_t)p * pointer * sizeof(float));
        at += (size_t)p * pointer;
    }
}

void memory_bank_write(struct memory_bank *b, int first, int n, const float *memories, const float *pointers)
{
    memcpy(memory_at(b, b->frames, first), memories, (size_t)n * memory_numbers(&b->size) * sizeof(float));
    memcpy(pointer_at(b, b->frames, first), pointers, (size_t)n * (size_t)b->size.pointer * sizeof(float));
}

void memory_bank_next(struct memory_bank *b) { b->frames++; }

// ---- As bytes

struct head { // without gaps
    struct memory_sizes size;
    int64_t things, frames;
};

int memory_bank_save(const struct memory_bank *b, void **data, size_t *size)
{
    const struct head head = {.size = b->size, .things = b->things, .frames = b->frames};
    size_t bytes = b->memory ? numbers(&b->size, b->things) * sizeof(float) : 0;
    *size = sizeof(head) + bytes;
    char *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    memcpy(to, &head, sizeof(head));
    if (bytes)
        memcpy(to + sizeof(head), b->memory, bytes);
    return TACHY_OK;
}

int memory_bank_load(struct memory_bank *b, const struct memory_sizes *size, const void *data, size_t bytes)
{
    struct head head;
    if (bytes < sizeof(head))
        return TACHY_ERR_FORMAT;
    memcpy(&head, data, sizeof(head));
    bytes -= sizeof(head);
    memory_bank_close(b);
    if (!head.things)
        return bytes ? TACHY_ERR_FORMAT : TACHY_OK;
    if (head.things < 0 || head.things > INT32_MAX || head.frames < 0 || head.frames > INT64_MAX / 2)
        return TACHY_ERR_FORMAT;
    // The quotient first: a product of wild numbers could be any.
    if (memcmp(&head.size, size, sizeof(*size)) || bytes / sizeof(float) / memory_numbers(size) < (size_t)head.things ||
        bytes != numbers(size, (int)head.things) * sizeof(float))
        return TACHY_ERR_FORMAT;
    int err = memory_bank_begin(b, size, (int)head.things);
    if (err < 0)
        return err;
    memcpy(b->memory, (const char *)data + sizeof(head), bytes);
    b->frames = head.frames;
    return TACHY_OK;
}

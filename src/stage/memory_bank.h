#pragma once
#include "base/base.h"

// What is remembered of the things that are followed through a video, as SAM 2 has it (Ravi et al. 2024): the memory of the frame
// with the prompts and those of the latest frames, and a pointer to each thing of these and of more frames. Numbers are float32.

enum { MEMORY_POINTERS = 16 }; // of a thing, that of the frame with the prompts included

// Sizes, which follow from the networks. All are above 0.
struct memory_sizes {
    int32_t kept;    // memories of a thing, that of the frame with the prompts included; 2 and more
    int32_t channels; // of a memory
    int32_t cells;   // of a memory
    int32_t pointer; // numbers of a pointer, a multiple of `channels`
};

struct memory_bank {
    struct memory_sizes size;
    int32_t things;
    int64_t frames; // remembered since the prompts, their frame included
    float *memory;  // [kept][things][channels][cells]: of the prompts' frame, then a ring
    float *pointer; // [MEMORY_POINTERS][things][pointer]: the same
    float *place;   // [cells][channels]: of any memory
    float *age;     // [kept][channels]: of a memory 1, 2, ... frames ago; the last one of the prompts' frame
    int32_t *kind;  // [things]: whatever the caller knows of each
};

// {0} is a bank that remembers nothing. TACHY_ERR_NOMEM: it stays as it was; else what it had is forgotten.
int memory_bank_begin(struct memory_bank *b, const struct memory_sizes *size, int things);
void memory_bank_close(struct memory_bank *b); // becomes {0}

// How many memories and pointers of a thing the next frame reads.
int memory_bank_memories(const struct memory_bank *b);
int memory_bank_pointers(const struct memory_bank *b);
// What a network reads of the `n` things from `first` on: memories [n][memories][channels][cells], the frame of the prompts first,
// then the oldest; pointers [n][pointers][pointer], of the prompts' frame first, then the newest; and where and when each
// token of both is, [n][memories * cells + pointers * pointer / channels][channels], zeros of pointers.
void memory_bank_read(const struct memory_bank *b, int first, int n, float *memories, float *pointers, float *at);
// The next frame's memories and pointers of these things. Of all things before memory_bank_next().
void memory_bank_write(struct memory_bank *b, int first, int n, const float *memories, const float *pointers);
void memory_bank_next(struct memory_bank *b);

// As bytes that another process of the same build takes: *data is for free(). load: TACHY_ERR_FORMAT: of another size, or of
// networks with other sizes; TACHY_ERR_NOMEM.
int memory_bank_save(const struct memory_bank *b, void **data, size_t *size);
int memory_bank_load(struct memory_bank *b, const struct memory_sizes *size, const void *data, size_t bytes);

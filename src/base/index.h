#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A hash table of numbers that stand for something of the caller's, such as an element of an array. {0} is
// an empty one. It belongs to one thread.
struct tachy_index {
    struct tachy_index_slot {
        uint64_t hash;
        int number; // plus one; 0: the slot is free
    } *slots;
    size_t room, used;
};

// True if `number` stands for `key`.
typedef bool tachy_index_same(const void *user, const void *key, int number);

// The number, 0 or more, that stands for `key`, whose hash is given (base/mix.h); -1: none.
int tachy_index_find(const struct tachy_index *x, uint64_t hash, tachy_index_same *same, const void *user,
                     const void *key);
// Adds `number`, 0 or more, under a hash. TACHY_ERR_NOMEM; the table is as before then.
int tachy_index_add(struct tachy_index *x, uint64_t hash, int number);
void tachy_index_free(struct tachy_index *x); // {0} again

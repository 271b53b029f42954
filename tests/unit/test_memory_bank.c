#include "stage/memory_bank.h"
#include "test.h"

#include <stdlib.h>

// What is remembered, in the order that networks read it, against frames kept whole; and as bytes, sound and broken.

enum { THINGS = 3, KEPT = 4, CHANNELS = 2, CELLS = 5, POINTER = 6, MEMORY = CHANNELS * CELLS, FRAMES = 40 };
static const struct memory_sizes sizes = {KEPT, CHANNELS, CELLS, POINTER};

static float memory_of(int frame, int thing, int i) { return (float)(frame * 1000 + thing * 100 + i); }
static float pointer_of(int frame, int thing, int i) { return -memory_of(frame, thing, i); }

static void remember(struct memory_bank *b, int frame)
{
    float memory[THINGS][MEMORY], pointer[THINGS][POINTER];
    for (int t = 0; t < THINGS; t++) {
        for (int i = 0; i < MEMORY; i++)
            memory[t][i] = memory_of(frame, t, i);
        for (int i = 0; i < POINTER; i++)
            pointer[t][i] = pointer_of(frame, t, i);
    }
    memory_bank_write(b, 0, 1, memory[0], pointer[0]);
    memory_bank_write(b, 1, THINGS - 1, memory[1], pointer[1]);
    memory_bank_next(b);
}

static void begin(struct memory_bank *b)
{
    CHECK_INT(memory_bank_begin(b, &sizes, THINGS), TACHY_OK);
    for (int i = 0; i < MEMORY; i++)
        b->place[i] = (float)i / 16;
    for (int i = 0; i < KEPT * CHANNELS; i++)
        b->age[i] = (float)i * 10;
    for (int i = 0; i < THINGS; i++)
        b->kind[i] = 7 - i;
}

// In frame `now`, of the last two things.
static void check(const struct memory_bank *b, int now)
{
    int m = TACHY_MIN(now, KEPT), p = TACHY_MIN(now, MEMORY_POINTERS);
    float memories[2 * KEPT * MEMORY], pointers[2 * MEMORY_POINTERS * POINTER], at[2 * (KEPT * MEMORY + MEMORY_POINTERS * POINTER)];
    const float *where = at;
    CHECK_INT(memory_bank_memories(b), m);
    CHECK_INT(memory_bank_pointers(b), p);
    memory_bank_read(b, 1, 2, memories, pointers, at);
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < m; k++) {
            int frame = k ? now - m + k : 0, age = k ? now - frame - 1 : KEPT - 1;
            for (int i = 0; i < MEMORY; i++) {
                CHECK(memories[(t * m + k) * MEMORY + i] == memory_of(frame, 1 + t, i));
                CHECK(*where++ == (float)i / 16 + (float)(age * CHANNELS + i % CHANNELS) * 10);
            }
        }
        for (int k = 0; k < p; k++)
            for (int i = 0; i < POINTER; i++) {
                CHECK(pointers[(t * p + k) * POINTER + i] == pointer_of(k ? now - k : 0, 1 + t, i));
                CHECK(*where++ == 0);
            }
    }
}

TEST(the_first_and_the_latest)
{
    struct memory_bank b = {0};
    begin(&b);
    for (int f = 0; f < FRAMES; f++) {
        remember(&b, f);
        check(&b, f + 1);
    }
    memory_bank_close(&b);
}

TEST(as_bytes)
{
    struct memory_bank b = {0}, other = {0};
    const struct memory_sizes wider = {KEPT, CHANNELS, CELLS + 1, POINTER};
    void *data;
    size_t size;
    CHECK_INT(memory_bank_save(&b, &data, &size), TACHY_OK); // that remembers nothing
    CHECK_INT(memory_bank_load(&other, &sizes, data, size), TACHY_OK);
    CHECK_INT(other.things, 0);
    free(data);
    begin(&b);
    for (int f = 0; f < 21; f++)
        remember(&b, f);
    CHECK_INT(memory_bank_save(&b, &data, &size), TACHY_OK);
    CHECK_INT(memory_bank_load(&other, &sizes, data, size), TACHY_OK);
    check(&other, 21);
    CHECK_INT(other.kind[2], 5);
    remember(&other, 21);
    check(&other, 22);
    CHECK_INT(memory_bank_load(&other, &wider, data, size), TACHY_ERR_FORMAT);
    for (size_t n = 0; n < size; n += 7)
        CHECK_INT(memory_bank_load(&other, &sizes, data, n), TACHY_ERR_FORMAT);
    for (int i = 0; i < 64; i++) { // things and frames that are none
        int64_t wild = i % 2 ? INT64_MIN + i : INT64_MAX - i;
        memcpy((char *)data + sizeof(sizes) + 8 * (i % 4 / 2), &wild, sizeof(wild));
        CHECK_INT(memory_bank_load(&other, &sizes, data, size), TACHY_ERR_FORMAT);
    }
    free(data);
    memory_bank_close(&b);
    memory_bank_close(&other);
}

TEST_MAIN(TEST_CASE(the_first_and_the_latest), TEST_CASE(as_bytes))

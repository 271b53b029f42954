#pragma once
#include "plan/cpu/plan_parts.h"

// Inside of src/plan/cpu/choice*.c.

// Convolutions of one shape: their kernel is chosen for all of them together.
struct choice_group {
    struct tachy_conv_shape shape;
    bool scaled;
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX]; // the default first
    int nb, chosen;
    uint64_t time[TACHY_CONV_VARIANTS_MAX]; // its steps' best times, added up, ns; 0: not timed yet
    bool out[TACHY_CONV_VARIANTS_MAX];      // clearly slower than another
    int current, rounds;                    // that runs; in which every variant ran
    bool closed;
};

// One convolution.
struct choice_member {
    int group;
    struct plan_packed *packed[TACHY_CONV_VARIANTS_MAX]; // NULL: not needed
    uint64_t best[TACHY_CONV_VARIANTS_MAX];              // ns; 0: none yet
};

struct choice {
    struct plan_build *b;
    struct choice_member *members; // as many and in the order of b->kernels
    struct choice_group *groups;
    int nb_groups;
};

// A choice as a text, one line a shape that has several kernels: for tachy_plan_params. NULL: no memory.
char *choice_print(const struct choice *c, const struct plan_choice *about);
// Sets what each group chose. False: the text does not fit the groups, or is of less effort.
bool choice_parse(struct choice *c, struct plan_choice *about, const char *text, int effort);
// Times and sets it (choice_time.c), in one of `parts` parts of the effort's time. TACHY_ERR_NOMEM.
int choice_time(struct choice *c, struct plan_choice *about, int effort, int parts);
// The step in which a member's convolution runs: its own, or that which it is joined to.
const struct plan_step *choice_timed_step(const struct choice *c, int member);
// Packs a member's weights for variant `i` unless done. TACHY_ERR_NOMEM.
int choice_pack(struct choice *c, int member, int i);
// Lets a group's steps run variant `i`, whose weights are packed.
void choice_use(struct choice *c, int group, int i);

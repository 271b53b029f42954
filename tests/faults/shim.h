#pragma once
// Between test_faults.py and the library that it preloads (shim.c): a file that both have mapped. test_faults.py
// has the same layout.
#include <stdint.h>

enum { FAULT_STACK = 12, FAULT_NAME = 96, FAULT_SITES = 256, FAULT_CALLS = 1 << 20 };

enum fault_kind { FAULT_NONE, FAULT_ALLOC, FAULT_WRITE };

struct fault_site {
    char name[FAULT_NAME]; // "libtachy.so+0x1234"
    uint64_t live;         // allocations asked for there that nobody freed until the end
};

struct fault_report {
    // Request from test_faults.py.
    uint32_t kind;  // enum fault_kind
    uint32_t error; // FAULT_WRITE: an errno; 0: a short write
    uint64_t at;    // the call that fails, counted from 0; UINT64_MAX: none
    // Results from the process.
    uint64_t calls; // of this kind
    uint32_t fired, nb_sites;
    char stack[FAULT_STACK][FAULT_NAME]; // of the call that failed, innermost first
    char crash[FAULT_STACK][FAULT_NAME]; // of the signal that ended the process, if one did
    struct fault_site sites[FAULT_SITES];
    uint64_t path[FAULT_CALLS]; // of each call, a number for the way that led there
};

#pragma once
#include "stage/stage.h"

// Cuts a task's stages into spans, which an item passes one after another. Pure.

enum pipeline_span_kind {
    SPAN_CARRIED, // a worker does all of it in one go
    SPAN_ORDERED, // the same, when it is the item's turn
    SPAN_BATCHED, // one stage, run by a batcher
};

struct pipeline_span {
    enum pipeline_span_kind kind;
    int first, end; // stages first .. end - 1; none if an ordered span only keeps and copies results
    int ahead;      // ordered: items after it that wait before the span when an item has its turn; of its first stage
    bool writes;    // of those that begin with the first stage that writes: only what is nearly due goes in
    bool copies;    // ordered: results are kept and taken over first
    bool drops;     // no stage after it reads the decoded picture
    bool own;       // ordered: it needs no worker's object, so its time is nobody's
};

enum { PIPELINE_SPANS = TACHY_MAX_STAGES + 3 };

// `batched`: stages that batch do. `copies`: results may be taken over. Returns how many spans, 1..PIPELINE_SPANS.
int pipeline_spans(const tachy_task *t, bool batched, bool copies, struct pipeline_span span[PIPELINE_SPANS]);

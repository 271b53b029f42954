#pragma once
#include "base/base.h"

// CLIP's byte-pair encoding (Radford et al. 2021): a text becomes numbers of a vocabulary of 49,408 tokens.

// Constant once it is read, so any thread may use it.
typedef struct tachy_vocabulary tachy_vocabulary;

// The list of merges, a pair a line after a first line, as text or gzip: open_clip's bpe_simple_vocab_16e6.txt.gz, or merges.txt
// of a published network. TACHY_ERR_NOT_FOUND, TACHY_ERR_IO, TACHY_ERR_FORMAT (it names the line), TACHY_ERR_NOMEM; logged.
int tachy_vocabulary_read(tachy_vocabulary **out, const char *path, const struct tachy_log *log);
void tachy_vocabulary_close(tachy_vocabulary **v);

enum { TACHY_TEXT_LONGEST = 1 << 14 }; // bytes

// Cleans the text (clean.h) and writes its tokens between those of begin and end, at most `room` (2 and more); of a longer one
// the last is the end. Returns how many, or TACHY_ERR_NOMEM, or TACHY_ERR_INVAL: the text is longer than TACHY_TEXT_LONGEST.
int tachy_tokenize(const tachy_vocabulary *v, const char *text, int32_t *tokens, int room);

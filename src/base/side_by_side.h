#pragma once

// Finds the number of parallel copies with the highest rate: for saturated rates of a machine's parts.

// Measures `n` copies: *rate, 0 before, is what they give together, in any unit. A negative code ends the search.
typedef int (*tachy_copies_rate)(void *user, int n, double *rate);

// Tries 1, 2, 4, ... up to `limit` copies, or the rising numbers in `tries` up to its end (0), until more copies gain
// less than 2 %. *best: the number with the highest rate, and *most that rate; 0: none was measured. With *best > 0 on
// entry, only that number is measured. Returns the code that ended the search; *best and *most then hold earlier
// results.
int tachy_side_by_side(int *best, double *most, int limit, const int *tries, tachy_copies_rate measure, void *user);

#pragma once

// How many copies of something side by side give the most: for rates of a machine's parts, saturated.

// Measures `n` copies: *rate, 0 before, is what they give together, in any unit. A negative code ends the search.
typedef int (*tachy_copies_rate)(void *user, int n, double *rate);

// Tries 1, 2, 4, ... up to `limit` copies, or the rising numbers in `tries` up to its end (0), until more give less than 2 %
// more. *best: as many as gave the most, and *most their rate; 0: none were measured. With *best > 0 before, that number alone
// is measured. Returns the code that ended the search; *best and *most then hold what was measured before.
int tachy_side_by_side(int *best, double *most, int limit, const int *tries, tachy_copies_rate measure, void *user);

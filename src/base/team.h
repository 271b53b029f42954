#pragma once

// Threads that help one caller with pieces of work, one piece per thread. A piece belongs to a thread, so that the next
// step finds in a core's cache what the last one left there. But a thread that has done its own piece takes pieces that
// others have not begun, so a helper that the system does not schedule delays nobody.
struct tachy_team;

// `threads` 2..256, the caller counted. NULL: out of memory, or the system has no more threads.
struct tachy_team *tachy_team_open(int threads);
void tachy_team_close(struct tachy_team *t); // NULL is allowed

// Calls fn(user, thread, piece) once for each piece 0..threads-1, in any order, on the caller (thread 0) and its
// helpers (1..threads-1), and returns when all are done. fn sees earlier writes of the caller, and the caller those of
// fn. One caller at a time.
void tachy_team_run(struct tachy_team *t, void (*fn)(void *user, int thread, int piece), void *user);

// As tachy_team_run() for `pieces` 1..256, by as many threads that end with it. If the system has none, the caller does all pieces.
void tachy_team_once(int pieces, void (*fn)(void *user, int thread, int piece), void *user);

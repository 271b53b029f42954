#pragma once

// Threads that help one caller with pieces of work, as many as there are threads. A piece belongs to
// a thread, so that what one step leaves in a core's cache is where the next step looks for it; but
// who has done its own takes what others have not begun, so a helper that the system does not run
// holds nobody up.
struct tachy_team;

// `threads` 2..256, the caller counted. NULL: out of memory, or the system has no more threads.
struct tachy_team *tachy_team_open(int threads);
void tachy_team_close(struct tachy_team *t); // NULL is allowed

// Calls fn(user, thread, piece) once for each piece 0..threads-1, in any order, on the caller (thread 0) and its
// helpers (1..threads-1), and returns when all are done. What was written before is seen by fn, what
// fn writes by the caller. One caller at a time.
void tachy_team_run(struct tachy_team *t, void (*fn)(void *user, int thread, int piece), void *user);

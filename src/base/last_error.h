#pragma once

// The calling thread's last message of level TACHY_LOG_ERR since tachy_forget_error(), whoever it was logged to; "" if there is none.
// A pipeline adds it to its own message when a stage fails: a command prints only the last one.
const char *tachy_last_error(void);
void tachy_forget_error(void);

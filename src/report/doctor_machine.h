#pragma once
#include <jansson.h>

// {caches: [{level, type ("data", "instruction", "unified"), kib, cores}], governor, celsius, throttled}: what the kernel says of
// the processor below `sys` ("/sys"; a test has another folder). cores: that share one such cache. governor: of the first core,
// null if the kernel has none. celsius: the hottest sensor, null without one. throttled: times that a core slowed down because of
// its heat since the machine was started, null if the kernel does not count them. Adds to `advice` what makes runs slower than
// they need be, as {what, command}.
json_t *doctor_machine(const char *sys, json_t *advice);

// Adds {what, command}; printf's format for `what`.
__attribute__((format(printf, 3, 4))) void doctor_advise(json_t *advice, const char *command, const char *fmt, ...);

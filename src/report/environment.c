#include "report/environment.h"

#include "base/base.h"
#include "base/cpu.h"

#include <glob.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <tachy/report.h>
#include <time.h>
#include <unistd.h>

static json_t *version_json(unsigned v)
{
    return json_sprintf("%u.%u.%u", AV_VERSION_MAJOR(v), AV_VERSION_MINOR(v), AV_VERSION_MICRO(v));
}

// The value of the first line that begins with `key` ("": the first line), without blanks in front; null without it.
static json_t *line_of(const char *path, const char *key)
{
    char line[256];
    json_t *o = NULL;
    FILE *f = fopen(path, "r");
    while (f && !o && fgets(line, sizeof(line), f)) {
        const char *v = line + strlen(key);
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, key, strlen(key)))
            o = json_string(v + strspn(v, " \t:"));
    }
    if (f)
        fclose(f);
    return o ? o : json_null();
}

// As NVIDIA's driver lists them, which wakes no GPU.
static json_t *gpus(void)
{
    json_t *list = json_array();
    glob_t found;
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            json_array_append_new(list, line_of(found.gl_pathv[i], "Model:"));
        globfree(&found);
    }
    return list;
}

json_t *report_environment(void)
{
    struct utsname os = {0};
    double load = 0;
    uname(&os);
    if (getloadavg(&load, 1) != 1)
        load = 0;
    double mib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
    return json_pack("{s:s, s:{s:s, s:i, s:s}, s:I, s:o, s:{s:o, s:o, s:o, s:o}, s:o, s:o, s:I, s:f}", "tachy", tachy_version(), "cpu",
                     "name", tachy_cpu_name(), "cores", tachy_cpu_count(), "isa", tachy_isa_name(tachy_cpu_isa()), "memory_mib",
                     (json_int_t)mib, "os", json_sprintf("%s %s", os.sysname, os.release), "ffmpeg", "libavcodec",
                     version_json(avcodec_version()), "libavformat", version_json(avformat_version()), "libavutil",
                     version_json(avutil_version()), "libswscale", version_json(swscale_version()), "gpus", gpus(), "governor",
                     line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", ""), "time", (json_int_t)time(NULL), "load", load);
}

int tachy_report_environment(char **json)
{
    TACHY_CLEAR(json);
    if (!json)
        return TACHY_ERR_INVAL;
    json_t *o = report_environment();
    *json = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

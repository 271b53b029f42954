// What a C++20 program writes: the parameters of calls by their names.
#include <cstdio>
#include <cstring>
#include <tachy/tachy.h>

// Stand in for calls of the library, so that this needs no more than the headers.
static int frames(const tachy_source_params *p) { return std::strcmp(p->url, "in.mp4") ? -1 : (int)p->max_frames; }
static bool empty(const tachy_control_params *p) { return !p->log; }

int main()
{
    bool ok = frames(tachy_source_params(.url = "in.mp4", .max_frames = 7)) == 7 && empty(tachy_control_params());
    std::printf("%d\n", ok);
    return ok ? 0 : 1;
}

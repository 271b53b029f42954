// libFuzzer target: any bytes as the index of a folder of saved stages. The arrays that a sound index
// names are in the folder.
#include "fuzz.h"

#include "job/replay.h"

#include <jansson.h>
#include <string.h>

enum { SIDE = 8 }; // of the saved frames

static void save_arrays(void)
{
    static float numbers[SIDE * SIDE * 3];
    const struct {
        const char *name;
        struct tachy_npy array;
    } files[] = {{"plane.npy", {.kind = 'u', .size = 1, .rank = 2, .shape = {SIDE, SIDE}}},
                 {"tensor.npy", {.kind = 'f', .size = 4, .rank = 4, .shape = {1, 3, SIDE, SIDE}}}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files); i++) {
        struct tachy_npy a = files[i].array;
        char *path = tachy_asprintf("%s/%s", fuzz_folder(), files[i].name);
        a.data = numbers;
        a.bytes = (size_t)a.size * SIDE * SIDE * (a.rank == 4 ? 3 : 1);
        if (!path || tachy_npy_write(path, &a, NULL) < 0)
            abort();
        tachy_free(path);
    }
}

// Larger frames take time to get and to clear, and nothing else.
static bool is_small(const uint8_t *data, size_t size)
{
    struct tachy_video_info v;
    json_t *index = json_loadb((const char *)data, size, 0, NULL);
    bool small = !tachy_video_from_json(&v, json_object_get(index, "input")) || v.width * v.height <= 1 << 16;
    json_decref(index);
    return small;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *path;
    if (!path && (path = tachy_asprintf("%s/" STAGE_INDEX, fuzz_folder())))
        save_arrays();
    if (!size || !is_small(data + 1, size - 1))
        return 0;
    fuzz_write(path, data + 1, size - 1);
    struct tachy_replay_params p = {.dir = fuzz_folder(), .stage = (enum tachy_replay_stage)(*data % TACHY_REPLAY_COUNT)};
    struct replay r = {.p = &p};
    if (replay_load(&r) == TACHY_OK)
        replay_settings(&r);
    replay_unload(&r);
    return 0;
}

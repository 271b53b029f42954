#include "tune.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A result is a JSON file, named after a digest of its class: $XDG_CACHE_HOME/tachy/tune/DIGEST.json.

static int name_of(const json_t *class, char *buf, size_t size)
{
    char dir[4000], *text = json_dumps(class, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    uint64_t digest = 0xcbf29ce484222325; // FNV-1a
    for (const char *s = text; s && *s; s++)
        digest = (digest ^ (unsigned char)*s) * 0x100000001b3;
    int err = text ? cache_folder("tune", dir, sizeof(dir)) : TACHY_ERR_NOMEM;
    free(text);
    if (err == TACHY_OK)
        snprintf(buf, size, "%s/%016llx.json", dir, (unsigned long long)digest);
    return err;
}

static int add_machine(json_t *o, const struct tachy_log *log)
{
    char *text = NULL;
    int err = tachy_doctor(&text, log);
    json_t *all = err == TACHY_OK ? json_loads(text, 0, NULL) : NULL, *cpu = json_object_get(all, "cpu");
    json_object_set(o, "version", json_object_get(all, "tachy"));
    json_object_set(o, "cpu", json_object_get(cpu, "name"));
    json_object_set(o, "cores", json_object_get(cpu, "cores"));
    json_object_set(o, "isa", json_object_get(cpu, "isa"));
    json_t *gpus = json_array();
    size_t i;
    const json_t *g;
    json_array_foreach(json_object_get(all, "gpu"), i, g)
        json_array_append(gpus, json_object_get(g, "name"));
    json_object_set_new(o, "gpus", gpus);
    json_decref(all);
    tachy_free(text);
    return err;
}

static int add_input(json_t *o, const char *url, const struct tachy_log *log)
{
    static const char *const keys[] = {"codec", "width", "height", "pix_fmt", "fps"};
    char *text = NULL;
    int err = tachy_probe(&text, tachy_source_params(.url = url, .log = log));
    json_t *all = err == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(all, "streams"), i, s)
        if (!strcmp(text_of(s, "type"), "video") && !json_object_get(o, "codec"))
            for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
                json_object_set(o, keys[k], json_object_get(s, keys[k]));
    json_decref(all);
    tachy_free(text);
    return err;
}

static void add_list(json_t *o, const tachy_settings *s, const char *path)
{
    const char *const *items;
    size_t n = tachy_settings_list(s, path, &items);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(items[i]));
    json_object_set_new(o, strchr(path, '.') + 1, list);
}

// Files whose settings are read: another time of change is another class.
static void add_configs(json_t *o, const tachy_settings *s)
{
    const char *const *files;
    size_t n = tachy_settings_list(s, "general.config", &files);
    json_t *list = json_array();
    struct stat st;
    for (size_t i = 0; i < n; i++)
        if (stat(files[i], &st) == 0)
            json_array_append_new(list, json_pack("[s,I,I]", files[i], (json_int_t)st.st_mtime, (json_int_t)st.st_size));
    json_object_set_new(o, "configs", list);
}

// Whether an option of the command can make other settings the best.
static bool makes_class(const char *path)
{
    return strncmp(path, "run.", 4) != 0 && strcmp(path, "input.files") != 0 && strcmp(path, "output.file") != 0 &&
           strcmp(path, "output.overwrite") != 0;
}

json_t *tune_class(struct tune *t)
{
    const struct cli *c = t->c;
    const char *const *inputs;
    tachy_settings_list(c->settings, "input.files", &inputs);
    json_t *o = json_object(), *words = json_array();
    for (size_t i = 0; i < c->n_inner; i++) // the options, as they were given
        if (c->inner_row[i] && makes_class(c->inner_row[i]->path))
            json_array_append_new(words, json_string(c->inner_argv[i]));
    json_object_set_new(o, "task", json_string(c->inner->name));
    json_object_set_new(o, "options", words);
    json_object_set_new(o, "model", json_string(tachy_settings_str(c->settings, "model.name")));
    json_object_set_new(o, "objective", json_string(tachy_settings_str(c->settings, "tune.objective")));
    json_object_set_new(o, "quality", json_real(tachy_settings_float(c->settings, "tune.quality")));
    json_object_set_new(o, "min_fps", json_real(tachy_settings_float(c->settings, "tune.min_fps")));
    json_object_set_new(o, "max_latency_ms", json_real(tachy_settings_float(c->settings, "tune.max_latency_ms")));
    json_object_set_new(o, "max_memory_mib", json_real(tachy_settings_float(c->settings, "tune.max_memory")));
    json_object_set_new(o, "max_vram_mib", json_real(tachy_settings_float(c->settings, "tune.max_vram")));
    add_list(o, c->settings, "tune.only");
    add_list(o, c->settings, "tune.fix");
    add_configs(o, c->settings);
    int err = add_machine(o, &c->log);
    if (err == TACHY_OK)
        err = add_input(o, inputs[0], &c->log);
    if (err == TACHY_OK)
        return o;
    json_decref(o);
    return NULL;
}

json_t *tune_load(const json_t *class)
{
    char path[4096];
    json_t *o = name_of(class, path, sizeof(path)) == TACHY_OK ? json_load_file(path, 0, NULL) : NULL;
    if (o && json_equal(json_object_get(o, "class"), class))
        return o;
    json_decref(o);
    return NULL;
}

int tune_save(const json_t *result)
{
    char dir[4096], path[4096], part[4200];
    const json_t *class = json_object_get(result, "class");
    if (!json_is_object(class) || strcmp(text_of(result, "kind"), "tune") != 0) {
        message_error("it holds no result of tachy tune; --export writes such files");
        return TACHY_ERR_FORMAT;
    }
    int err = cache_folder("tune", dir, sizeof(dir));
    err = err == TACHY_OK ? make_folders(dir) : err;
    err = err == TACHY_OK ? name_of(class, path, sizeof(path)) : err;
    if (err < 0)
        return err;
    snprintf(part, sizeof(part), "%s.part", path);
    if (json_dump_file(result, part, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) < 0 || rename(part, path) < 0)
        return write_failed(path);
    return TACHY_OK;
}

int tune_all(json_t **out)
{
    char dir[4000], path[4300];
    struct dirent **entry = NULL;
    int err = cache_folder("tune", dir, sizeof(dir));
    *out = json_array();
    int n = err == TACHY_OK ? scandir(dir, &entry, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(entry[i]->d_name, '.');
        snprintf(path, sizeof(path), "%s/%s", dir, entry[i]->d_name);
        json_t *o = dot && !strcmp(dot, ".json") ? json_load_file(path, 0, NULL) : NULL;
        if (o && !strcmp(text_of(o, "kind"), "tune"))
            json_array_append(*out, o);
        json_decref(o);
        free(entry[i]);
    }
    free(entry);
    return err;
}

#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reports and plots of results: the JSON objects that runs, profile, bench, engine bench and tune write, one schema
// family distinguished by `kind` (docs/result-files.md). docs/compare-runs.md has the statistics of a comparison.
//
// A list of files names files or folders; of a folder, all files that end in .json are read in the order of their
// names. A file holds one result, an array of them, or several in sequence (one per line, as `--json >> runs.json`
// makes). Thread-safety: any thread; calls are independent.

// The environment block of a result, for programs that write their own results: machine, system, versions, load. *json:
// free with tachy_free().
TACHY_API int tachy_report_environment(char **json);

struct tachy_report_compare_params {
    const char *const *base; // required: files of the runs before the change
    size_t nb_base;          // >= 1
    const char *const *changed; // required: files of the runs after the change
    size_t nb_changed;       // >= 1
    double fail_above;       // relative loss that fails, and half width of the range that counts as equal;
                             // 0: 0.03
    int paired;              // 1: the i-th runs of base and changed were made one after the other; 0: they were not
    bool steps;              // compare the steps too, each by its mean time per call
    const struct tachy_log *log; // NULL: silent
};
#define tachy_report_compare_params(...) (&(struct tachy_report_compare_params){__VA_ARGS__})

// *json: a result of the kind "comparison"; `failed` is true if a figure is worse by more than fail_above. Free with
// tachy_free(). TACHY_ERR_FORMAT: a file holds no result, or the two sides have no figure in common;
// TACHY_ERR_MISMATCH: paired, but the two sides have different numbers of runs; TACHY_ERR_NOT_FOUND, TACHY_ERR_IO,
// TACHY_ERR_LIMIT (over 64 MiB).
TACHY_API int tachy_report_compare_sized(size_t p_size, char **json, const struct tachy_report_compare_params *p);
#define tachy_report_compare(...) tachy_report_compare_sized(sizeof(struct tachy_report_compare_params), __VA_ARGS__)

// A comparison as a table for people, or in Markdown for a pull request. Free with tachy_free(). TACHY_ERR_FORMAT:
// `json` is not an object.
TACHY_API int tachy_report_compare_text(char **text, const char *json);
TACHY_API int tachy_report_compare_markdown(char **text, const char *json);

// Adds to a result of the kind "bench" the figures of each case, from its runs: medians with bootstrap intervals, and
// which runs are outliers. *json, and *text as a table: free with tachy_free(). TACHY_ERR_FORMAT: not an object.
TACHY_API int tachy_report_bench_sums(char **json, const char *bench);
TACHY_API int tachy_report_bench_text(char **text, const char *json);

struct tachy_report_params {
    const char *const *files; // required: results
    size_t nb_files;          // >= 1
    const char *format;       // for a report: "html" (default if NULL), "md", "json", "csv", "text"
    const char *plot;         // for tachy_report_plot(), required there: a name that docs/report.md lists
    const struct tachy_log *log; // NULL: silent
};
#define tachy_report_params(...) (&(struct tachy_report_params){__VA_ARGS__})

// All results in one document: what they measured, figures against targets, verdicts, and every plot with its table.
// HTML is one file that opens without a network. *out: free with tachy_free(). Errors as tachy_report_compare();
// TACHY_ERR_INVAL: the format.
TACHY_API int tachy_report_write_sized(size_t p_size, char **out, const struct tachy_report_params *p);
#define tachy_report_write(...) tachy_report_write_sized(sizeof(struct tachy_report_params), __VA_ARGS__)
// One plot as an SVG file. TACHY_ERR_NOT_FOUND: the log names the plots that these results have data for.
TACHY_API int tachy_report_plot_sized(size_t p_size, char **svg, const struct tachy_report_params *p);
#define tachy_report_plot(...) tachy_report_plot_sized(sizeof(struct tachy_report_params), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

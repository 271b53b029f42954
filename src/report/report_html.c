#include "report/report.h"

#include "report/json_text.h"
#include "report/plots.h"

// One page without anything from elsewhere.

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
    "<link rel=\"icon\" href=\"data:,\"><title>tachy report</title>\n<style>\n"
    ":root{color-scheme:light dark;--text:#222;--back:#fff;--soft:#666;--rule:#ddd;--good:#1f7a3d;--bad:#b3261e;"
    "--c0:#3b6fd4;--c1:#d9822b;--c2:#3a9d5d;--c3:#8e5bc2;--c4:#b8476b;--c5:#5c7080;--c6:#2a9d9d;--c7:#a0892b}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e4e4e4;--back:#17191c;--soft:#a0a4a8;--rule:#3a3d41;--good:#6fcf8c;--bad:#ff8a80;"
    "--c0:#7aa5ff;--c1:#f0a45c;--c2:#6cc98d;--c3:#b890e6;--c4:#e583a3;--c5:#9fb3c4;--c6:#62cccc;--c7:#d6bf62}}\n"
    "body{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;max-width:860px;margin:2em auto;padding:0 1em;color:var(--text);background:var(--back)}\n"
    "h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid var(--rule)}\n"
    "table{border-collapse:collapse;font-size:.92em;margin:.6em 0}td,th{padding:.2em .9em .2em 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--rule);overflow-wrap:anywhere}th{color:var(--soft);font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums}.pass{color:var(--good)}.miss{color:var(--bad)}.verdict{font-weight:600}\n"
    "svg{width:100%;height:auto;margin:.6em 0}svg text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:var(--text);paint-order:stroke;stroke:var(--back);"
    "stroke-width:3px}.grid{stroke:var(--rule)}"
    ".zero{stroke:var(--soft)}.mark{stroke:var(--bad);stroke-dasharray:4 3}.whisker{stroke:var(--text);fill:none;stroke-width:1.5}"
    ".line{stroke-width:2}\n"
    ".s0{fill:var(--c0);stroke:var(--c0)}.s1{fill:var(--c1);stroke:var(--c1)}.s2{fill:var(--c2);stroke:var(--c2)}"
    ".s3{fill:var(--c3);stroke:var(--c3)}.s4{fill:var(--c4);stroke:var(--c4)}.s5{fill:var(--c5);stroke:var(--c5)}"
    ".s6{fill:var(--c6);stroke:var(--c6)}.s7{fill:var(--c7);stroke:var(--c7)}\n"
    ".roof{stroke:var(--soft);stroke-width:1.5;fill:none}.span{stroke:var(--back);stroke-width:.6}.inside text{fill:var(--back);stroke:none}\n"
    "[data-v]:hover,[data-v]:focus{outline:none;opacity:.7}#tip{position:fixed;display:none;padding:.25em .6em;border:1px solid var(--rule);"
    "background:var(--back);border-radius:4px;font-size:.85em;pointer-events:none;max-width:30em}\n"
    "summary{cursor:pointer;color:var(--soft)}\n</style></head><body>\n<h1>Results</h1>\n";

static const char tail[] =
    "<div id=\"tip\" role=\"status\"></div>\n<script>\n"
    "const tip = document.getElementById('tip');\n"
    "const show = (e, x, y) => { tip.textContent = e.dataset.v; tip.style.display = 'block';\n"
    "  tip.style.left = Math.min(x + 12, innerWidth - tip.offsetWidth - 8) + 'px'; tip.style.top = (y + 14) + 'px'; };\n"
    "document.querySelectorAll('[data-v]').forEach(e => {\n"
    "  e.addEventListener('mousemove', m => show(e, m.clientX, m.clientY));\n"
    "  e.addEventListener('focus', () => { const r = e.getBoundingClientRect(); show(e, r.right, r.top); });\n"
    "  for (const leave of ['mouseleave', 'blur']) e.addEventListener(leave, () => { tip.style.display = 'none'; });\n"
    "});\n</script>\n</body></html>\n";

static void cell(FILE *f, const char *tag, const char *class, const char *text)
{
    fprintf(f, *class ? "<%s class=\"%s\">" : "<%s>", tag, class);
    plot_escape(f, text);
    fprintf(f, "</%s>", tag);
}

static void part(FILE *f, const json_t *p)
{
    size_t k;
    const json_t *o;
    cell(f, "h2", "", report_text(p, "name", ""));
    if (*report_text(p, "verdict", ""))
        cell(f, "p", "verdict", report_text(p, "verdict", ""));
    fputs("<table>\n", f);
    json_array_foreach(json_object_get(p, "facts"), k, o) {
        fputs("<tr>", f);
        cell(f, "th", "", json_string_value(json_array_get(o, 0)));
        cell(f, "td", "", json_string_value(json_array_get(o, 1)));
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
    if (!json_array_size(json_object_get(p, "targets")))
        return;
    fputs("<table><tr><th>figure</th><th class=\"n\">measured</th><th class=\"n\">target</th><th></th></tr>\n", f);
    json_array_foreach(json_object_get(p, "targets"), k, o) {
        const json_t *pass = json_object_get(o, "pass");
        const char *word = json_is_null(pass) ? "" : json_is_true(pass) ? "pass" : "miss";
        fputs("<tr>", f);
        cell(f, "td", "", report_text(o, "figure", ""));
        cell(f, "td", "n", report_text(o, "value", ""));
        cell(f, "td", "n", report_text(o, "target", ""));
        cell(f, "td", word, word);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
}

static void table(FILE *f, const json_t *plot)
{
    unsigned has = report_has(plot);
    char buf[64];
    size_t i;
    const json_t *o;
    fputs("<details><summary>Table</summary><table><tr>", f);
    for (int c = 0; report_columns[c]; c++)
        if (has & 1u << c)
            cell(f, "th", c > 1 ? "n" : "", report_heading(plot, c));
    fputs("</tr>\n", f);
    json_array_foreach(json_object_get(plot, "points"), i, o) {
        fputs("<tr>", f);
        for (int c = 0; report_columns[c]; c++)
            if (has & 1u << c)
                cell(f, "td", c > 1 ? "n" : "", report_cell(o, c, buf, sizeof(buf)));
        fputs("</tr>\n", f);
    }
    fputs("</table></details>\n", f);
}

void report_html(FILE *f, const json_t *report)
{
    size_t i;
    const json_t *o;
    fputs(head, f);
    json_array_foreach(json_object_get(report, "results"), i, o)
        part(f, o);
    json_array_foreach(json_object_get(report, "plots"), i, o) {
        fputs("<section>", f);
        cell(f, "h2", "", report_text(o, "title", ""));
        plot_svg(f, o, 0);
        table(f, o);
        fputs("</section>\n", f);
    }
    fputs(tail, f);
}

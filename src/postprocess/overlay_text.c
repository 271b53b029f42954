#include "postprocess/overlay.h"

// Letters as lines. Each glyph is a list of lines of points "xy", x 0..4 from the left, y 0..8 from the top of
// capitals; the base line is at 6.
static const char *const glyphs[] = {
    ['!'] = "2024 2626", ['"'] = "1011 3031", ['#'] = "1016 3036 0242 0444",
    ['$'] = "413010010213334445361605 2026", ['%'] = "4006 0010110100 3646453536", ['&'] = "461120310405162644",
    ['\''] = "2021", ['('] = "30212536", [')'] = "10212516", ['*'] = "2125 0244 4204", ['+'] = "2125 0343",
    [','] = "2617", ['-'] = "1333", ['.'] = "2626", ['/'] = "0640",
    ['0'] = "103041453616050110", ['1'] = "112026 1636", ['2'] = "011030414206 0646", ['3'] = "011030414233 13334445361605",
    ['4'] = "36300444", ['5'] = "400003334445361605", ['6'] = "312011020516364544331304", ['7'] = "004016",
    ['8'] = "13020110304142331304051636454433", ['9'] = "152635444130100102133342",
    [':'] = "2222 2626", [';'] = "2222 2617", ['<'] = "411345", ['='] = "0242 0444", ['>'] = "013305",
    ['?'] = "011030414224 2626", ['@'] = "45361605011030414424223242",
    ['A'] = "062046 1434", ['B'] = "0006364544330300 3342413000", ['C'] = "4130100105163645", ['D'] = "00062644422000",
    ['E'] = "40000646 0333", ['F'] = "400006 0333", ['G'] = "41301001051636454323", ['H'] = "0006 4046 0343",
    ['I'] = "1030 2026 1636", ['J'] = "4045361605", ['K'] = "0006 400346", ['L'] = "000646", ['M'] = "0600234046",
    ['N'] = "06004640", ['O'] = "103041453616050110", ['P'] = "06003041423303", ['Q'] = "103041453616050110 2446",
    ['R'] = "06003041423303 2346", ['S'] = "413010010213334445361605", ['T'] = "0040 2026", ['U'] = "000516364540",
    ['V'] = "002640", ['W'] = "0016223640", ['X'] = "0046 4006", ['Y'] = "002340 2326", ['Z'] = "00400646",
    ['['] = "30101636", ['\\'] = "0046", [']'] = "10303616", ['^'] = "022042", ['_'] = "0747", ['`'] = "1021",
    ['a'] = "1232434616051444", ['b'] = "00063645433202", ['c'] = "4332120305163645", ['d'] = "40461605031242",
    ['e'] = "044443321203051636", ['f'] = "40302126 1232", ['g'] = "461605031242473818", ['h'] = "0006 02324346",
    ['i'] = "2226 2020", ['j'] = "32372818 3030", ['k'] = "0006 320436", ['l'] = "202536", ['m'] = "0602 03122326 23324346",
    ['n'] = "0602 0312324346", ['o'] = "123243453616050312", ['p'] = "08023243453606", ['q'] = "48421203051646",
    ['r'] = "0602 042242", ['s'] = "4212031434453606", ['t'] = "10152636 0232", ['u'] = "0205163645 4246",
    ['v'] = "022642", ['w'] = "0216233642", ['x'] = "0246 4206", ['y'] = "0226 4218", ['z'] = "02420646",
    ['{'] = "30211303 1325 2536", ['|'] = "2027", ['}'] = "10213343 3325 2516", ['~'] = "03123443",
};
static const char unknown[] = "1030361610";

enum { ADVANCE = 6, CAPITAL = 6 }; // units

static int letter(struct tachy_shapes *to, const char *glyph, const struct tachy_shape *like, float x, float y, float unit)
{
    struct tachy_shape s = *like;
    bool begun = false;
    for (const char *g = glyph; *g; g += *g == ' ' ? 1 : 2) {
        if (*g == ' ') {
            begun = false;
            continue;
        }
        s.x0 = s.x1;
        s.y0 = s.y1;
        s.x1 = x + (float)(g[0] - '0') * unit;
        s.y1 = y + (float)(g[1] - '0' - CAPITAL) * unit;
        int err = begun ? tachy_shapes_add(to, &s) : TACHY_OK;
        if (err < 0)
            return err;
        begun = true;
    }
    return TACHY_OK;
}

// Bytes inside of a character of several.
static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

float tachy_overlay_text_width(const char *text, float size)
{
    int n = 0;
    for (const char *c = text; *c; c++)
        n += !continues(*c);
    return n ? (float)(n * ADVANCE - 2) * size / CAPITAL : 0;
}

int tachy_overlay_text(struct tachy_shapes *to, const char *text, const struct tachy_shape *like, float x, float y,
                       float size)
{
    float unit = size / CAPITAL;
    int err = TACHY_OK;
    for (const char *c = text; *c && err == TACHY_OK; c++) {
        unsigned char u = (unsigned char)*c;
        if (continues(*c))
            continue;
        const char *glyph = u < TACHY_ARRAY_SIZE(glyphs) && u > ' ' ? glyphs[u] : u == ' ' ? "" : unknown;
        err = letter(to, glyph, like, x, y, unit);
        x += ADVANCE * unit;
    }
    return err;
}

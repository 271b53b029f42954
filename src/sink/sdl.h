#pragma once
#include <stdint.h>

// The part of SDL 2 that is used; it is loaded at run time, so no build needs it. tests/unit/test_sdl.c compares this
// with SDL's own headers if they are installed.

enum {
    SDL2_VIDEO = 0x20,              // SDL_INIT_VIDEO
    SDL2_RESIZABLE = 0x20,          // SDL_WINDOW_RESIZABLE
    SDL2_FULLSCREEN = 0x1001,       // SDL_WINDOW_FULLSCREEN_DESKTOP
    SDL2_CENTERED = 0x2FFF0000,     // SDL_WINDOWPOS_CENTERED
    SDL2_IYUV = 0x56555949,         // SDL_PIXELFORMAT_IYUV
    SDL2_JPEG = 0, SDL2_BT601 = 1, SDL2_BT709 = 2, // SDL_YUV_CONVERSION_...: matrix and range
    SDL2_STREAMING = 1,             // SDL_TEXTUREACCESS_STREAMING
    SDL2_FLIP_HORIZONTAL = 1,       // SDL_FLIP_HORIZONTAL
    SDL2_QUIT = 0x100,              // events
    SDL2_KEYDOWN = 0x300,
    SDL2_USER = 0x8000,
    SDL2_ESCAPE = 27,
};

struct sdl_rect {
    int x, y, w, h;
};

union sdl_event {
    uint32_t type;
    struct {
        uint32_t type, time, window;
        uint8_t state, repeat, padding[2];
        int32_t scancode, symbol;
    } key;
    uint64_t room[16]; // SDL's has 56 bytes
};

// The functions of these names.
#define SDL2_FUNCTIONS(F)                                                                                               \
    F(int, InitSubSystem, (uint32_t))                                                                                   \
    F(void, QuitSubSystem, (uint32_t))                                                                                  \
    F(const char *, GetError, (void))                                                                                   \
    F(int, SetHint, (const char *, const char *))                                                                       \
    F(void *, CreateWindow, (const char *, int, int, int, int, uint32_t))                                               \
    F(void *, CreateRenderer, (void *, int, uint32_t))                                                                  \
    F(void *, CreateTexture, (void *, uint32_t, int, int, int))                                                         \
    F(int, UpdateYUVTexture, (void *, const struct sdl_rect *, const uint8_t *, int, const uint8_t *, int, const uint8_t *, int)) \
    F(void, SetYUVConversionMode, (int))                                                                                \
    F(const char *, GetCurrentVideoDriver, (void))                                                                      \
    F(int, RenderSetLogicalSize, (void *, int, int))                                                                    \
    F(int, RenderClear, (void *))                                                                                       \
    F(int, RenderCopyEx, (void *, void *, const struct sdl_rect *, const struct sdl_rect *, double, const void *, int)) \
    F(void, RenderPresent, (void *))                                                                                    \
    F(int, SetWindowFullscreen, (void *, uint32_t))                                                                     \
    F(int, GetDisplayUsableBounds, (int, struct sdl_rect *))                                                            \
    F(int, WaitEventTimeout, (union sdl_event *, int))                                                                  \
    F(int, PushEvent, (union sdl_event *))                                                                              \
    F(void, DestroyTexture, (void *))                                                                                   \
    F(void, DestroyRenderer, (void *))                                                                                  \
    F(void, DestroyWindow, (void *))

struct sdl {
#define SDL2_MEMBER(result, name, args) result(*name) args;
    SDL2_FUNCTIONS(SDL2_MEMBER)
#undef SDL2_MEMBER
};

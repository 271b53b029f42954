#pragma once

// Mel-frequency cepstra of a sound of 16 kHz (Davis and Mermelstein 1980), with the constants that python_speech_features has by
// itself: 26 triangles from 0 to 8000 Hz, 13 cepstra, liftered by 22, and the logarithm of the energy in place of the first.
// Samples are codes of 16 bits; each differs from 0.97 times the one before it, and 400 of them are one window.

enum {
    TACHY_CEPSTRA = 13,
    TACHY_CEPSTRUM_WINDOW = 400,  // samples
    TACHY_CEPSTRUM_FOURIER = 512, // the window and zeros
    TACHY_CEPSTRUM_BINS = TACHY_CEPSTRUM_FOURIER / 2 + 1,
    TACHY_CEPSTRUM_RATE = 16000,
};

// power: of each bin, the squared magnitude over TACHY_CEPSTRUM_FOURIER.
void tachy_cepstrum(const double power[TACHY_CEPSTRUM_BINS], float to[TACHY_CEPSTRA]);

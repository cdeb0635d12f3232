// models.csv, compiled in: the architectures of models that timm 1.0 registers or that model cards
// build with it. tests/extract/vit/timm_rows.py generates the file from timm's models;
// tests/extract/vit/parity.py compares features with timm's.
#pragma once

namespace coldframe::vit {

// A line for each model: its name; an earlier model as base, or empty for Architecture's defaults;
// and differences from the base, KEY=VALUE, separated by spaces. Keys: Architecture's fields, and
// image, pool and StoredNames' of Published. The first two lines are a header.
extern const char* const kPublishedModels;
// clips.csv in the same form: models of clips, under names of our own.
extern const char* const kPublishedClips;

}  // namespace coldframe::vit

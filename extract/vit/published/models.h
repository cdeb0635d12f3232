// models.csv, compiled in: the architectures of the models that timm 1.0 registers, and that model
// cards make with it. tests/extract/vit/timm_rows.py makes the file from timm's own models;
// tests/extract/vit/parity.py compares features with timm's.
#pragma once

namespace coldframe::vit {

// A line for each model: its name; an earlier name, or nothing for Architecture's defaults; and
// what differs from it, KEY=VALUE, separated by spaces. Keys are those of Architecture's fields,
// and image, pool, gamma_names and split_names of Published. Two lines stand before.
extern const char* const kPublishedModels;

}  // namespace coldframe::vit

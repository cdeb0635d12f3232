// The commands behind `coldframe`: each is a program, or a word that a program takes first.
#pragma once

#include <array>

namespace coldframe {

struct CommandRow {
  const char* name;
  const char* program;
  bool passes_name;  // whether the program takes the name as its first argument
  bool needs_libtorch;
  const char* summary;
};

inline constexpr std::array<CommandRow, 9> kCommands = {{
    {"extract", "coldframe-train_temporal", true, true, "frames -> frozen ViT -> cache"},
    {"cache", "coldframe-cache", false, false, "look into a cache: ls, info, stats, verify"},
    {"train", "coldframe-train_temporal", true, true, "train a temporal model on a cache"},
    {"evaluate", "coldframe-train_temporal", true, true,
     "measure a trained run on a labelled cache"},
    {"predict", "coldframe-train_temporal", true, true, "apply a trained run or a bundle to exams"},
    {"bundle", "coldframe-train_temporal", true, true, "a finished run as one thing to hand over"},
    {"plan", "coldframe-train_temporal", true, true,
     "memory of every way of training, before it runs"},
    {"doctor", "coldframe", true, false, "will Coldframe run here, and what is missing"},
    {"setup", "coldframe-setup", false, false, "get the LibTorch that Coldframe runs with"},
}};

}  // namespace coldframe

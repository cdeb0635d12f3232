// The epochs of one fit as TensorBoard shows them, while it trains and afterwards.
#pragma once

#include <filesystem>
#include <span>

#include "train_temporal/splits/labels.h"
#include "train_temporal/tensorboard/event_file.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

class EpochEvents {
 public:
  // Continues behind the epochs that `trainer` has done; those of them that the file lacks get
  // their losses again, without metric and time.
  EpochEvents(const std::filesystem::path& path, const Trainer& trainer);

  // The epoch that `trainer` has just done. Step: the epoch, counted from 0. Tags: loss/train,
  // loss/validation, learning_rate, time/step (seconds, of training alone), time/epoch (with
  // validation), and of the validation part validation/auroc, or r2 and mae of a regression, or
  // quadratic_kappa and class_mae of ordinal classes; with several targets validation/TARGET/auroc.
  void add(const Trainer& trainer);
  void flush() { file_.flush(); }

 private:
  EventFile file_;
};

}  // namespace coldframe::temporal

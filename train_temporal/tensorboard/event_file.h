// A TensorBoard file that grows by one event per step, counted from 0 without gaps, and can be cut
// back to where a resumed fit continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "train_temporal/tensorboard/event_record.h"

namespace coldframe::temporal {

class EventFile {
 public:
  // Creates `path` and its folder. Of what is there it keeps the whole events of the first `keep`
  // steps and leaves out the rest: steps that will be done again, and an event torn by a kill.
  // SystemError.
  EventFile(const std::filesystem::path& path, std::int64_t keep);
  ~EventFile();  // what was not flushed is written if it can be
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  std::int64_t steps() const { return steps_; }  // in the file, or on their way to it
  void add(std::span<const Scalar> scalars);     // as step steps(); reaches the file once a second
  void flush();                                  // to the disk: a power cut leaves it

 private:
  void write();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t steps_ = 0;
  std::string pending_;
  double written_ = 0;  // when
};

}  // namespace coldframe::temporal

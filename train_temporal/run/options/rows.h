// The rows of options of `train` and its kin: an OptionRow that also says where its value is, which
// config.json states, --search draws and checks of what goes together read. To add an option is a
// row, beside its member.
#pragma once

#include <boost/program_options.hpp>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/option_rows.h"
#include "common/files/json.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/models/architecture.h"

namespace coldframe::temporal {

// What --search draws of an option: one of some values, or a number between two.
struct Draw {
  std::vector<Json> choices = {};
  double low = 0, high = 0;
  bool by_logarithm = false;

  Json operator()(CounterRandom& random) const;
};

// `key`: its place in config.json, "fit.learning_rate"; "": none.
struct ValueRow : OptionRow {
  std::string group;
  std::function<Json()> value;
  Json standard;                   // its value before parsing
  std::vector<std::string> words;  // those that may be given; none: any
  bool used_most = false, is_input = false;
  std::optional<Draw> draw;
  std::size_t draw_place = 0;                                   // in the order of draws
  bool Architecture::*reader = nullptr;                         // the models that it is for
  const char* readers = nullptr;                                // their name in a message
  const char *companion = nullptr, *companion_value = nullptr;  // the option that it needs
  std::optional<NamedOutput> output;                            // it names what is written

  ValueRow& in(const std::string& path) { return key = path, *this; }
  ValueRow& most_used() { return used_most = true, *this; }
  ValueRow& local() { return set.is_local = true, *this; }
  // It names what is read. Such an option is local.
  ValueRow& input() { return is_input = true, local(); }
  // It names what is written; `may_stand` as NamedOutput has it.
  ValueRow& written_to(bool (*may_stand)(const std::filesystem::path&) = nullptr) {
    return output = {concat("--", name), {}, may_stand}, *this;
  }
  ValueRow& written_to_folder() { return written_to(), output->is_folder = true, *this; }
  ValueRow& show(const std::string& text) { return shown = text, *this; }
  ValueRow& show_none() { return show(""); }
  ValueRow& alone(const std::string& word) { return word_alone = word, *this; }
  ValueRow& written(std::function<Json()> as) {
    value = std::move(as);
    standard = value();
    return *this;
  }
  ValueRow& only(std::vector<std::string> allowed) { return words = std::move(allowed), *this; }
  // --search draws it. Its place among the draws stays, so that a seed's settings do.
  ValueRow& searched(std::size_t place, Draw from) {
    return draw_place = place, draw = std::move(from), *this;
  }
  ValueRow& for_models(bool Architecture::*which, const char* text) {
    return reader = which, readers = text, *this;
  }
  ValueRow& needs(const char* option, const char* placeholder) {
    return companion = option, companion_value = placeholder, *this;
  }
  void assign(const Json& json) const {
    set(name, json.is_string() ? json.get<std::string>() : json.dump());
  }
};

// Folders of runs and of evaluations judge themselves whether they may be replaced.
inline bool judges_itself(const std::filesystem::path&) {
  return true;
}

class OptionRows {
 public:
  void group(const std::string& caption) { group_ = caption; }

  // `place` is a number or an optional one.
  template <typename Place>
  ValueRow& number(const char* name, Place& place, const NumberBounds& bounds,
                   const std::string& help);
  ValueRow& toggle(const char* name, bool& place, const std::string& help);
  // A text or a path.
  template <typename Place>
  ValueRow& text(const char* name, Place& place, const char* placeholder, const std::string& help);
  // Columns with commas between them.
  ValueRow& names(const char* name, std::vector<std::string>& value, const std::string& help);
  template <typename T>
  ValueRow& word(const char* name, T& place, const WordTable<T>& table, const char* placeholder,
                 const std::string& help);
  // A word, or null for a switch, that does something where it is given; ConfigError.
  ValueRow& parsed(const char* name, const char* placeholder, SetOption take,
                   const std::string& help);

  const std::deque<ValueRow>& rows() const { return rows_; }
  // False when only help was asked for. ConfigError.
  bool parse(const CommandHelp& help, const std::vector<std::string>& arguments);

  const GivenOptions& given() const { return given_; }
  bool given(std::string_view name) const { return given_.contains(name); }
  // True where an option asks for something: given, or where it has a default another value.
  bool asks(const ValueRow& row) const;
  void require(std::string_view name) const;  // ConfigError where it has no value
  void check_companions() const;              // ConfigError for options whose companion is missing
  // ConfigError for those of `names` that are given.
  void refuse(const std::vector<std::string>& names, const std::string& why) const;
  // Holds what options name to be written against what they, and `inputs`, name to be read
  // (outputs.h). ConfigError.
  void check_files(std::vector<NamedInput> inputs, bool overwrite) const;

  // What was given as lines of an INI file, that of the groups `but` aside; none where a word is
  // one that such a file cannot hold.
  std::optional<std::string> ini(const std::vector<std::string>& but) const;
  std::vector<const ValueRow*> searched() const;  // in the order of draws
  // Sets the rows whose key begins with "`part`." in `json`, by the rest of it.
  void write(const std::string& part, Json& json) const;

 private:
  // All options: those that are used most lead, each of the others is in its group.
  boost::program_options::options_description description();

  std::string group_ = "Options";
  std::deque<ValueRow> rows_;
  GivenOptions given_;
  GivenWords words_;  // also of defaults
};

template <typename Place>
ValueRow& OptionRows::number(const char* name, Place& place, const NumberBounds& bounds,
                             const std::string& help) {
  ValueRow& row = parsed(name, "N", coldframe::number(place, bounds), help);
  if constexpr (requires { place.has_value(); }) {
    return row.written([&place] { return place ? Json(*place) : Json(); });
  } else {
    const bool whole = std::is_integral_v<Place>;
    row.show(whole ? concat(place) : exact(static_cast<double>(place)));  // 0.3 of a float, too
    return row.written([&place] { return Json(place); });
  }
}

template <typename Place>
ValueRow& OptionRows::text(const char* name, Place& place, const char* placeholder,
                           const std::string& help) {
  const auto now = [&place] { return std::filesystem::path(place).string(); };
  return parsed(name, placeholder, coldframe::text(place), help)
      .written([now] { return Json(now()); })
      .show(now());
}

template <typename T>
ValueRow& OptionRows::word(const char* name, T& place, const WordTable<T>& table,
                           const char* placeholder, const std::string& help) {
  return parsed(name, placeholder, one_of(place, table), help)
      .written([&place, table] { return Json(word_for(table, place)); })
      .only(words_in(table))
      .show(word_for(table, place));
}

}  // namespace coldframe::temporal

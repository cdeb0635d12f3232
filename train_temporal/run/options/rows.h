// Options as rows. A row binds a name to a member of an options struct and says what it may be and
// what it means: the command line, its bounds, --help, config.json, --search and the checks of what
// goes together read it. To add an option is a row, beside its member.
#pragma once

#include <boost/program_options.hpp>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "common/files/json.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/models/architecture.h"

namespace coldframe::temporal {

// What a number may be, and how a message says it.
struct Range {
  double low, high;  // both belong to it
  std::string text;
  bool or_zero = false;

  bool has(double value) const {
    return (or_zero && value == 0) || (value >= low && value <= high);
  }
};
Range between(double low, double high);
Range at_least(double low);
Range more_than(double low);
Range below_one();               // from 0 on
Range share(double margin = 0);  // between 0 and 1, no nearer to them than `margin`
Range or_zero(Range range);
void require_in(const Range& range, const std::string& option, double value);  // ConfigError

// What --search draws of an option: one of some values, or a number between two.
struct Draw {
  std::vector<Json> choices = {};
  double low = 0, high = 0;
  bool by_logarithm = false;

  Json operator()(CounterRandom& random) const;
};

struct OptionRow {
  using Semantic = boost::program_options::value_semantic;

  std::string name, group, help;
  std::function<Semantic*(const OptionRow&)> semantic;  // Boost takes it over
  std::function<Json()> value;
  std::function<void(const Json&)> assign;

  std::string key;                     // its place in config.json: "fit.learning_rate"; "": none
  std::optional<std::string> shown;    // the default that --help shows
  std::optional<std::string> implied;  // where the option stands alone
  std::vector<std::string> words;      // those that may be given; none: any
  bool used_most = false;
  std::optional<Draw> draw;
  std::size_t draw_place = 0;                                   // in the order of draws
  bool Architecture::*reader = nullptr;                         // the models that it is for
  const char* readers = nullptr;                                // their name in a message
  const char *companion = nullptr, *companion_value = nullptr;  // the option that it needs
  Json standard;                                                // its value before parsing
  std::string spelt = {};                                       // on the command line

  OptionRow& in(const std::string& path) { return key = path, *this; }
  OptionRow& most_used() { return used_most = true, *this; }
  OptionRow& show(const std::string& text) { return shown = text, *this; }
  OptionRow& show_none() { return shown.reset(), *this; }
  OptionRow& alone(const std::string& word) { return implied = word, *this; }
  OptionRow& written(std::function<Json()> as) {
    value = std::move(as);
    standard = value();
    return *this;
  }
  OptionRow& only(std::vector<std::string> allowed) { return words = std::move(allowed), *this; }
  // --search draws it. Its place among the draws stays, so that a seed's settings do.
  OptionRow& searched(std::size_t place, Draw from) {
    return draw_place = place, draw = std::move(from), *this;
  }
  OptionRow& for_models(bool Architecture::*which, const char* text) {
    return reader = which, readers = text, *this;
  }
  OptionRow& needs(const char* option, const char* placeholder) {
    return companion = option, companion_value = placeholder, *this;
  }
};

class OptionRows {
 public:
  void group(const std::string& caption) { group_ = caption; }

  template <typename Number>
  OptionRow& number(const std::string& name, Number& value, const Range& range,
                    const std::string& help);
  OptionRow& number(const std::string& name, std::optional<double>& value, const Range& range,
                    const std::string& help);
  OptionRow& toggle(const std::string& name, bool& value, const std::string& help);
  OptionRow& text(const std::string& name, std::string& value, const char* placeholder,
                  const std::string& help);
  OptionRow& path(const std::string& name, std::filesystem::path& value, const char* placeholder,
                  const std::string& help);
  // Columns with commas between them.
  OptionRow& names(const std::string& name, std::vector<std::string>& value,
                   const std::string& help);
  template <typename T>
  OptionRow& word(const std::string& name, T& value, const WordTable<T>& table,
                  const char* placeholder, const std::string& help);
  // `take` reads a word; ConfigError.
  OptionRow& parsed(const std::string& name, const char* placeholder,
                    std::function<void(const std::string&)> take, const std::string& help);

  // A switch that does something where it is given.
  OptionRow& parsed_toggle(const std::string& name, std::function<void()> take,
                           const std::string& help);

  const std::deque<OptionRow>& rows() const { return rows_; }
  // All options: those that are used most lead, each of the others is in its group.
  boost::program_options::options_description description() const;
  // False when only help was asked for. ConfigError.
  bool parse(const CommandHelp& help, const std::vector<std::string>& arguments);

  bool given(const std::string& name) const { return given_.contains(name); }
  // True where an option asks for something: given, or where it has a default another value.
  bool asks(const OptionRow& row) const;
  void require(const char* name) const;  // ConfigError where it has no value
  void check_companions() const;         // ConfigError for options whose companion is missing
  // ConfigError for those of `names` that are given.
  void refuse(const std::vector<std::string>& names, const std::string& why) const;

  // What was given as lines of an INI file, that of the groups `but` aside; none where a word is
  // one that such a file cannot hold.
  std::optional<std::string> ini(const std::vector<std::string>& but) const;
  std::vector<const OptionRow*> searched() const;  // in the order of draws
  // Sets the rows whose key begins with "`part`." in `json`, by the rest of it.
  void write(const std::string& part, Json& json) const;

 private:
  OptionRow& add(const std::string& name, const std::string& help);

  std::string group_ = "Options";
  std::deque<OptionRow> rows_;
  GivenOptions given_;
};

template <typename Number>
OptionRow& OptionRows::number(const std::string& name, Number& value, const Range& range,
                              const std::string& help) {
  OptionRow& row = add(name, help);
  const std::string shown =
      std::is_floating_point_v<Number> ? exact(static_cast<double>(value)) : concat(value);
  row.show(shown);  // 0.3, where Boost would show 0.29999999999999999
  row.semantic = [&value, range](const OptionRow& self) {
    return boost::program_options::value(&value)
        ->value_name("N")
        ->default_value(value, self.shown.value_or(""))
        ->notifier([range, name = self.name](const Number& given) {
          require_in(range, name, static_cast<double>(given));
        });
  };
  row.assign = [&value](const Json& json) { value = json.get<Number>(); };
  return row.written([&value] { return Json(value); });
}

template <typename T>
OptionRow& OptionRows::word(const std::string& name, T& value, const WordTable<T>& table,
                            const char* placeholder, const std::string& help) {
  const auto take = [&value, table](const std::string& word) { value = *value_for(table, word); };
  OptionRow& row = parsed(name, placeholder, take, help);
  row.assign = [take](const Json& json) { take(json.get<std::string>()); };
  return row.written([&value, table] { return Json(word_for(table, value)); })
      .only(words_in(table))
      .show(word_for(table, value));
}

}  // namespace coldframe::temporal

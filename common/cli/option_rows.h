// Options as rows: each says a name, where the option's word goes and within which bounds, what
// --help shows, and what records of the options (a recipe) say of it.
#pragma once

#include <boost/program_options.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe {

// What a number may be: "1 or more", "more than 0 mm", "16 to 512 pixels".
struct NumberBounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  const char* unit = "";
  bool above = false, below = false;  // `least` itself, or `most`, is not allowed
  bool or_zero = false;               // 0 is allowed, too

  bool contain(double value) const {
    return (or_zero && value == 0) ||
           ((above ? value > least : value >= least) && (below ? value < most : value <= most));
  }
  std::string text() const;
};
inline NumberBounds between(double least, double most) {
  return {.least = least, .most = most};
}
inline NumberBounds at_least(double least, const char* unit = "") {
  return {.least = least, .unit = unit};
}
inline NumberBounds above(double least, const char* unit = "") {
  return {.least = least, .unit = unit, .above = true};
}
inline NumberBounds below_one() {
  return {.least = 0, .most = 1, .below = true};
}
// Between 0 and 1, no nearer to them than `margin`.
inline NumberBounds share(double margin = 0) {
  return {.least = margin, .most = 1 - margin, .above = margin == 0, .below = margin == 0};
}
inline NumberBounds or_zero(NumberBounds bounds) {
  bounds.or_zero = true;
  return bounds;
}

// Stores an option's value in its variable; ConfigError names the option and what is expected.
struct SetOption : std::function<void(const std::string& option, const std::string& word)> {
  using function::function;
  // Puts what a recipe records of the option in the same place, within the same bounds:
  // ConfigError. Json::exception for another kind of value.
  std::function<void(const std::string& option, const Json& recorded)> restore = {};
  bool refuses_empty = false;  // else an empty word is as good as none
  bool is_local = false;       // a path or a secret: ini_text() leaves it out
};

struct OptionRow {
  const char* name;
  const char* value_name;  // nullptr: a switch
  SetOption set;
  std::string help;
  std::string word_alone = "";  // stands for a word where the option has none; "": it needs one
  // Where a recipe states the option, and what; null: it has its default, and the key is left out,
  // so that what was made before the option existed can be continued.
  std::string key = "";
  Json recorded = nullptr;
  std::string shown = "";  // the default that --help shows; it is set like a word that is given
};

// The options that were given, with their words ("" of a switch).
using GivenWords = std::map<std::string, std::string, std::less<>>;

// Adds rows to the options that parse_command_line() takes; `given` gets their words there.
void describe_option(const OptionRow& row, GivenWords& given,
                     boost::program_options::options_description& description);
void describe_options(const std::vector<OptionRow>& rows, GivenWords& given,
                      boost::program_options::options_description& description);
// Sets the rows that were given, in their order.
void set_options(const std::vector<OptionRow>& rows, const GivenWords& given);
std::string word_of(const GivenWords& given, std::string_view option);  // "": it was not given

// "option = word" as a line for --config; none for a word that such a file cannot hold.
std::optional<std::string> ini_line(const std::string& option, const std::string& word);
// Lines for --config of the rows that were given and are not local; none as above.
std::optional<std::string> ini_text(const std::vector<OptionRow>& rows, const GivenWords& given);
// The names of what was given and is local, with dashes and commas.
std::string local_names(const std::vector<OptionRow>& rows, const GivenWords& given);

[[noreturn]] void refuse_number(const std::string& option, const std::string& word,
                                const NumberBounds& bounds);

template <typename Number>
Number parse_number(const std::string& option, const std::string& word,
                    const NumberBounds& bounds) {
  std::conditional_t<std::is_integral_v<Number>, std::int64_t, double> value = 0;
  bool valid = false;
  if constexpr (std::is_integral_v<Number>)
    valid = parse_int(word, value) && std::in_range<Number>(value);
  else
    valid = parse_double(word, value) && std::isfinite(value);
  if (valid && bounds.contain(static_cast<double>(value))) return static_cast<Number>(value);
  refuse_number(option, word, bounds);
}

template <typename Number>
Number restored_number(const std::string& option, const Json& recorded,
                       const NumberBounds& bounds) {
  const bool valid =
      std::is_integral_v<Number> ? recorded.is_number_integer() : recorded.is_number();
  if (valid && bounds.contain(recorded.get<double>())) return recorded.get<Number>();
  refuse_number(option, recorded.dump(), bounds);
}

inline SetOption with_restore(SetOption set, decltype(SetOption::restore) restore) {
  set.restore = std::move(restore);
  return set;
}

template <typename Place>
struct NumberOf {
  using Type = Place;
};
template <typename Number>
struct NumberOf<std::optional<Number>> {
  using Type = Number;
};

// `place` is a number or an optional one.
template <typename Place>
SetOption number(Place& place, const NumberBounds& bounds = {}) {
  using Number = typename NumberOf<Place>::Type;
  SetOption set = [&place, bounds](const std::string& option, const std::string& word) {
    place = parse_number<Number>(option, word, bounds);
  };
  set.restore = [&place, bounds](const std::string& option, const Json& recorded) {
    place = restored_number<Number>(option, recorded, bounds);
  };
  set.refuses_empty = true;
  return set;
}

template <typename Place, typename T>
SetOption one_of(Place& place, const WordTable<T>& table) {
  const auto set = [&place, table](const std::string& option, const std::string& word) {
    place = choice(option, word, table);
  };
  return with_restore(set, [set](const std::string& option, const Json& recorded) {
    set(option, recorded.get<std::string>());
  });
}

// A text or a path.
template <typename Place>
SetOption text(Place& place) {
  return with_restore(
      [&place](const std::string&, const std::string& word) { place = word; },
      [&place](const std::string&, const Json& recorded) { place = recorded.get<std::string>(); });
}

inline SetOption local(SetOption set) {
  set.is_local = true;
  return set;
}

// What a recipe records of a switch says that it is on.
inline SetOption flag(bool& place) {
  return with_restore([&place](const std::string&, const std::string&) { place = true; },
                      [&place](const std::string&, const Json&) { place = true; });
}

// place = parse(word); a recipe records such a word.
template <typename Place, typename Parse>
SetOption parsed(Place& place, Parse parse) {
  return with_restore(
      [&place, parse](const std::string&, const std::string& word) { place = parse(word); },
      [&place, parse](const std::string&, const Json& recorded) {
        place = parse(recorded.get<std::string>());
      });
}

template <typename T>
Json unless(const T& usual, const T& value) {
  return value == usual ? Json(nullptr) : Json(value);
}

}  // namespace coldframe

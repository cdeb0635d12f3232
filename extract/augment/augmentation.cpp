#include "extract/augment/augmentation.h"

#include <algorithm>
#include <array>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::augment {
namespace {

// An augmentation whose strength is drawn from a range.
struct Ranged {
  const char* name;
  std::optional<Range> Augmentation::*member;
  Range (*around)(double value);  // what a single number means
  Range allowed;                  // both ends
  const char* expected;
};

constexpr double kLeast = 0.01, kMost = 10;

const std::array<Ranged, 6> kRanged{{
    {"rotate",
     &Augmentation::rotate,
     [](double v) {
       return Range{-v, v};
     },
     {-180, 180},
     "degrees, 0 to 180, or LOW:HIGH from -180 to 180"},
    {"scale",
     &Augmentation::scale,
     [](double v) {
       return Range{v, 1};
     },
     {kLeast, 1},
     "the least share of the frame's area that is kept, 0.01 to 1, or LOW:HIGH"},
    {"brightness",
     &Augmentation::brightness,
     [](double v) {
       return Range{1 - v, 1 + v};
     },
     {0, kMost},
     "V for factors from 1-V to 1+V, V from 0 to 1, or LOW:HIGH from 0 to 10"},
    {"contrast",
     &Augmentation::contrast,
     [](double v) {
       return Range{1 - v, 1 + v};
     },
     {0, kMost},
     "V for factors from 1-V to 1+V, V from 0 to 1, or LOW:HIGH from 0 to 10"},
    {"gamma",
     &Augmentation::gamma,
     [](double v) {
       return Range{1 / (1 + v), 1 + v};
     },
     {kLeast, kMost},
     "V for exponents from 1/(1+V) to 1+V, V from 0 to 9, or LOW:HIGH from 0.01 to 10"},
    {"noise",
     &Augmentation::noise,
     [](double v) {
       return Range{0, v};
     },
     {0, 1},
     "the largest deviation of levels in 0 to 1, e.g. 0.02, or LOW:HIGH"},
}};

struct Flip {
  const char* name;
  std::optional<double> Augmentation::*member;
};
const std::array<Flip, 2> kFlips{{{"flip", &Augmentation::flip}, {"vflip", &Augmentation::vflip}}};

[[noreturn]] void refuse(const std::string& word, const std::string& expected) {
  throw ConfigError(concat("--augment '", word, "': expected ", expected));
}

void set_flip(const Flip& flip, const std::string& word, const std::string& value,
              Augmentation& augmentation) {
  double probability = 0.5;
  if (word.find('=') != std::string::npos &&
      (!parse_double(value, probability) || !(probability > 0 && probability <= 1)))
    refuse(word, "a probability, more than 0 and at most 1");
  augmentation.*flip.member = probability;
}

void set_range(const Ranged& kind, const std::string& word, const std::string& value,
               Augmentation& augmentation) {
  const auto ends = split(value, ':');
  double first = 0, second = 0;
  if (ends.size() > 2 || !parse_double(trim(ends.front()), first) ||
      (ends.size() == 2 && !parse_double(trim(ends.back()), second)))
    refuse(word, kind.expected);
  // A negative number alone would turn its range around.
  const Range range = ends.size() == 2 ? Range{first, second} : kind.around(first);
  const bool valid = (ends.size() == 2 || first >= 0) && range.low <= range.high &&
                     range.low >= kind.allowed.low && range.high <= kind.allowed.high;
  if (!valid) refuse(word, kind.expected);
  augmentation.*kind.member = range;
}

[[noreturn]] void refuse_name(const std::string& name) {
  std::vector<std::string> names;
  for (const Flip& flip : kFlips) names.push_back(flip.name);
  for (const Ranged& kind : kRanged) names.push_back(kind.name);
  throw ConfigError(concat("--augment: there is no '", name, "'; choose from ", join(names, ", ")));
}

void set_one(const std::string& word, Augmentation& augmentation) {
  const std::size_t equals = word.find('=');
  const std::string name = trim(word.substr(0, equals));
  const std::string value = equals == std::string::npos ? "" : trim(word.substr(equals + 1));
  const auto twice = [&](bool given) {
    if (given) throw ConfigError(concat("--augment names ", name, " twice; give it once"));
  };
  for (const Flip& flip : kFlips) {
    if (name != flip.name) continue;
    twice((augmentation.*flip.member).has_value());
    return set_flip(flip, word, value, augmentation);
  }
  for (const Ranged& kind : kRanged) {
    if (name != kind.name) continue;
    twice((augmentation.*kind.member).has_value());
    return set_range(kind, word, value, augmentation);
  }
  refuse_name(name);
}

}  // namespace

void parse_list(const std::string& list, Augmentation& augmentation) {
  for (const std::string& word : split(list, ',')) set_one(trim(word), augmentation);
}

Json to_json(const Augmentation& augmentation) {
  Json json{{"seed", augmentation.seed}};
  for (const Flip& flip : kFlips)
    if (const auto& probability = augmentation.*flip.member) json[flip.name] = *probability;
  for (const Ranged& kind : kRanged)
    if (const auto& range = augmentation.*kind.member)
      json[kind.name] = Json::array({range->low, range->high});
  return json;
}

std::vector<std::string> view_names(const Augmentation& augmentation) {
  std::vector<std::string> names{"clean"};
  for (std::size_t view = 1; view <= augmentation.views; ++view)
    names.push_back(concat("view", view));
  return names;
}

}  // namespace coldframe::augment

#include "common/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/cli/option_rows.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

namespace po = boost::program_options;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

struct Options {
  std::string input;
  int epochs = 10;
  std::size_t batch = 16;
  double rate = 1e-3;
  bool strict = false;
  std::vector<double> mean;
  std::vector<std::string> files;
};

const CommandHelp kHelp = {"coldframe demo --input PATH [options]", "Shows options.",
                           "coldframe demo --input a.csv"};

bool parse(Options& options, const std::vector<std::string>& arguments,
           const std::string& positional = "", GivenOptions* given = nullptr) {
  po::options_description description("Demo");
  description.add_options()("input", po::value(&options.input), "what to read")(
      "epochs", po::value(&options.epochs), "passes")("batch-size", po::value(&options.batch),
                                                      "exams per step")(
      "rate", po::value(&options.rate), "step size")("strict", po::bool_switch(&options.strict),
                                                     "stop at once")(
      "mean", po::value(&options.mean)->multitoken(), "one or three")(
      "file", po::value(&options.files), "files");
  return parse_command_line(kHelp, description, arguments, positional, given);
}

Options parsed(const std::vector<std::string>& arguments, const std::string& positional = "") {
  Options options;
  EXPECT_TRUE(parse(options, arguments, positional));
  return options;
}

TEST(CommandLine, BindsValuesInEverySpelling) {
  const Options options = parsed({"--input=a b.csv", "--epochs", "3", "--rate", "-0.5", "--strict",
                                  "--mean", "0.1", "-0.2", "3"});
  EXPECT_EQ(options.input, "a b.csv");
  EXPECT_EQ(options.epochs, 3);
  EXPECT_EQ(options.batch, 16u) << "left at its default";
  EXPECT_EQ(options.rate, -0.5);
  EXPECT_TRUE(options.strict);
  EXPECT_THAT(options.mean, ElementsAre(0.1, -0.2, 3.0));
}

TEST(CommandLine, BareWordsGoToThePositionalOption) {
  EXPECT_THAT(parsed({"a.h5", "--epochs", "2", "b.h5"}, "file").files, ElementsAre("a.h5", "b.h5"));
}

TEST(CommandLine, HelpShowsUsageOptionsAndExampleAndAsksForNothingElse) {
  Options options;
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(parse(options, {"--help"}));
  const std::string help = ::testing::internal::GetCapturedStdout();
  for (const char* part :
       {"Usage: coldframe demo", "Shows options.", "--batch-size", "--config FILE", "--quiet",
        "results are printed", "Example:\n  coldframe demo --input a.csv"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

struct BadCommand {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<const char*> parts;
};

class BadCommandTest : public ::testing::TestWithParam<BadCommand> {};

TEST_P(BadCommandTest, IsAConfigErrorThatNamesIt) {
  Options options;
  const std::string message =
      message_of<ConfigError>([&] { parse(options, GetParam().arguments); });
  for (const char* part : GetParam().parts) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, BadCommandTest,
    ::testing::Values(
        BadCommand{"Unknown", {"--epoch", "3"}, {"unknown option '--epoch'", "'--epochs'"}},
        BadCommand{"UnknownWithValue", {"--epcohs=3"}, {"'--epcohs'", "did you mean '--epochs'"}},
        BadCommand{
            "OneMoreWord", {"--max-epochs=3"}, {"'--max-epochs'", "did you mean '--epochs'"}},
        BadCommand{"NothingNear", {"--zzzzzzzz"}, {"'--zzzzzzzz'", "--help"}},
        BadCommand{"PrefixIsNotGuessed", {"--batch", "3"}, {"unknown option '--batch'"}},
        BadCommand{"MissingValue", {"--input"}, {"--input", "missing"}},
        BadCommand{"EmptyValue", {"--epochs="}, {"--epochs"}},
        BadCommand{"NotANumber", {"--epochs", "many"}, {"--epochs", "many"}},
        BadCommand{"Fraction", {"--epochs", "1.5"}, {"--epochs", "1.5"}},
        BadCommand{"TooLarge", {"--epochs", "99999999999"}, {"--epochs", "99999999999"}},
        BadCommand{"Negative", {"--batch-size", "-1"}, {"--batch-size", "-1", "negative"}},
        BadCommand{"NegativeSpaced", {"--batch-size= -1"}, {"--batch-size", "-1"}},
        BadCommand{"Nan", {"--rate", "nan"}, {"--rate", "nan", "finite"}},
        BadCommand{"Infinite", {"--mean", "0.5", "inf"}, {"--mean", "inf", "finite"}},
        BadCommand{"Twice", {"--epochs", "1", "--epochs", "2"}, {"--epochs", "more than once"}},
        BadCommand{"FlagWithValue", {"--strict=yes"}, {"--strict"}},
        BadCommand{"StrayWord", {"run", "--epochs", "1"}, {"unexpected argument 'run'"}},
        BadCommand{"EmptyWord", {""}, {"unexpected argument ''"}},
        BadCommand{"NoSuchConfig", {"--config", "/none.ini"}, {"/none.ini", "No such file"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ConfigFile, GivesOptionsAndTheCommandLineWins) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("a.ini",
                                        "# a comment\n"
                                        "input = some path.csv\n"
                                        "epochs = 5\n"
                                        "strict = true\n"
                                        "mean = 0.1 0.2 0.3\n");
  const Options options = parsed({"--epochs", "7", "--config", path});
  EXPECT_EQ(options.input, "some path.csv");
  EXPECT_EQ(options.epochs, 7);
  EXPECT_TRUE(options.strict);
  EXPECT_THAT(options.mean, ElementsAre(0.1, 0.2, 0.3));
}

TEST(ConfigFile, ItsOptionsCountAsGiven) {
  testing::TemporaryFolder folder;
  folder.write("c.ini", "epochs = 7\nstrict = false\n");
  Options options;
  GivenOptions given;
  parse(options, {"--config", folder / "c.ini", "--rate", "2"}, "", &given);
  EXPECT_THAT(given, ElementsAre("config", "epochs", "rate"));
}

TEST(ConfigFile, QuietCanBeAskedForThere) {
  const testing::TemporaryFolder folder;
  parsed({"--config", folder.write("a.ini", "quiet = true\n")});
  EXPECT_TRUE(is_quiet());
  parsed({});
  EXPECT_FALSE(is_quiet());
}

TEST(ConfigFile, SectionsAreForTheirCommand) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("a.ini",
                                        "input = a.csv\n"
                                        "[cache ls]\nwhere = label=1\n"
                                        "[extract ]\nepochs = 3\ninput = b.csv\n");
  EXPECT_EQ(parsed({"--config", path}).input, "a.csv");
  EXPECT_EQ(parsed({"--config", path}).epochs, 10);
  Options options;
  po::options_description description;
  description.add_options()("input", po::value(&options.input))("epochs",
                                                                po::value(&options.epochs));
  EXPECT_TRUE(parse_command_line({"coldframe extract --input PATH", "", ""}, description,
                                 {"--config", path}));
  EXPECT_EQ(options.epochs, 3);
  EXPECT_EQ(options.input, "b.csv") << "goes before the line above all sections";
  std::string where;
  po::options_description verb;
  verb.add_options()("input", po::value(&options.input))("where", po::value(&where));
  EXPECT_TRUE(
      parse_command_line({"coldframe cache ls CACHE [options]", "", ""}, verb, {"--config", path}));
  EXPECT_EQ(where, "label=1");
}

struct BadConfig {
  const char* name;
  const char* text;
  std::vector<const char*> parts;
};

class BadConfigTest : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsAConfigErrorThatNamesTheFileAndTheKey) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("a.ini", GetParam().text);
  Options options;
  const std::string message = message_of<ConfigError>([&] { parse(options, {"--config", path}); });
  EXPECT_THAT(message, HasSubstr("a.ini"));
  for (const char* part : GetParam().parts) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadConfigTest,
    ::testing::Values(
        BadConfig{"UnknownKey", "epoch = 3\n", {"unknown key 'epoch'", "'epochs'"}},
        BadConfig{"Section", "[extarct]\nepochs = 3\n", {"'[extarct]'", "'[extract]'"}},
        BadConfig{"FarSection", "[x]\nepochs = 3\n", {"'[x]'", "expected one of extract"}},
        BadConfig{"WrongCommand", "[cahce ls]\nepochs = 3\n", {"did you mean 'cache'"}},
        BadConfig{"Malformed", "epochs = many\n", {"epochs", "many"}},
        BadConfig{"Negative", "batch-size = -4\n", {"batch-size", "-4"}},
        BadConfig{"Twice", "epochs = 1\nepochs = 2\n", {"epochs"}},
        BadConfig{"NoEquals", "epochs\n", {"epochs"}},
        BadConfig{"Nested", "config = b.ini\n", {"'config'"}},
        BadConfig{"BadFlag", "strict = perhaps\n", {"strict", "perhaps"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Choice, GivesTheIndexOrListsTheSet) {
  EXPECT_EQ(choice("pool", "mean", {"cls", "mean"}), 1u);
  EXPECT_EQ(message_of<ConfigError>([] {
              choice("pool", "max", {"cls", "mean"});
            }),
            "--pool: 'max' is not one of: cls, mean");
}

struct RowOptions {
  std::int64_t frames = 0;
  std::optional<double> spacing;
  int side = 0;
  std::string device = "auto";
  bool strict = false, sorted = false;
};

std::vector<OptionRow> rows_of(RowOptions& options) {
  return {{"frames", "N", number(options.frames, at_least(1)), "how many", "", "storage.frames",
           unless<std::int64_t>(0, options.frames)},
          {"spacing", "MM", number(options.spacing, above(0, "mm")), "of pixels"},
          {"side", "PX", number(options.side, {16, 512, "pixels"}), "of thumbnails", "96"},
          {"device", "NAME", text(options.device), "which computes"},
          {"sort", "BY", one_of(options.sorted, WordTable<bool>{{"time", true}}), "the order"},
          {"strict", nullptr, flag(options.strict), "stop at once"}};
}

RowOptions set_rows(const std::vector<std::string>& arguments, GivenWords* given = nullptr) {
  RowOptions options;
  GivenWords words;
  const std::vector<OptionRow> rows = rows_of(options);
  po::options_description description("Demo");
  describe_options(rows, words, description);
  EXPECT_TRUE(parse_command_line(kHelp, description, arguments));
  set_options(rows, words);
  if (given != nullptr) *given = words;
  return options;
}

TEST(OptionRows, SetWhatIsGivenAndLeaveTheRest) {
  GivenWords given;
  const RowOptions options = set_rows(
      {"--frames", "12", "--spacing=0.5", "--side", "--strict", "--sort", "time", "--device", ""},
      &given);
  EXPECT_EQ(options.frames, 12);
  EXPECT_EQ(options.spacing, 0.5);
  EXPECT_EQ(options.side, 96) << "the word that the option alone stands for";
  EXPECT_EQ(options.device, "auto") << "an empty word is none";
  EXPECT_TRUE(options.strict && options.sorted);
  EXPECT_EQ(word_of(given, "frames"), "12");
  EXPECT_TRUE(given.contains("strict") && !given.contains("device"));
  EXPECT_FALSE(set_rows({}).spacing);
}

TEST(OptionRows, RefuseByNameWithTheBounds) {
  const auto refusal = [](const std::string& argument) {
    return message_of<ConfigError>([&] { set_rows({argument}); });
  };
  EXPECT_EQ(refusal("--frames=0"), "--frames 0: expected 1 or more");
  EXPECT_EQ(refusal("--frames=2.5"), "--frames 2.5: expected 1 or more");
  EXPECT_EQ(refusal("--spacing=0"), "--spacing 0: expected more than 0 mm");
  EXPECT_EQ(refusal("--spacing=inf"), "--spacing inf: expected more than 0 mm");
  EXPECT_EQ(refusal("--side=8"), "--side 8: expected 16 to 512 pixels");
  EXPECT_EQ(refusal("--sort=name"), "--sort: 'name' is not one of: time");
}

TEST(OptionRows, RecordWhatIsNotTheDefault) {
  RowOptions options;
  EXPECT_TRUE(rows_of(options).front().recorded.is_null());
  options.frames = 3;
  EXPECT_EQ(rows_of(options).front().recorded, Json(3));
}

int run(const std::function<int(const std::vector<std::string>&)>& body) {
  std::string program = "demo", argument = "one";
  char* arguments[] = {program.data(), argument.data(), nullptr};
  return run_main(2, arguments, body);
}

TEST(RunMain, PassesArgumentsAndGivesTheExitCodeOfEachError) {
  EXPECT_EQ(run([](const std::vector<std::string>& arguments) {
              EXPECT_THAT(arguments, ElementsAre("one"));
              return 1;
            }),
            1);
  EXPECT_EQ(run([](const auto&) -> int { throw ConfigError("x"); }), 2);
  EXPECT_EQ(run([](const auto&) -> int { throw DataError("x"); }), 3);
  EXPECT_EQ(run([](const auto&) -> int { throw Interrupted("x"); }), 75);
  EXPECT_EQ(run([](const auto&) -> int { throw 7; }), 3);
}

TEST(RunMain, SaysWhatToDoWithoutMemory) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run([](const auto&) -> int { throw std::bad_alloc(); }), 3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::MatchesRegex("error: out of memory; [^\n]*\n"));
}

TEST(RunMain, ShowsOneLineOfForeignErrors) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run([](const auto&) -> int { throw std::runtime_error("first\nat frame #0\n"); }), 3);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "error: first\n");
}

}  // namespace
}  // namespace coldframe

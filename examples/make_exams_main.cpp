// coldframe-make-exams: writes synthetic angiography exams to try Coldframe with.
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/progress.h"
#include "examples/make_exams.h"

namespace po = boost::program_options;

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, [](const std::vector<std::string>& arguments) {
    coldframe::examples::MakeExamsOptions options;
    std::string out;
    po::options_description described("Options");
    described.add_options()                                                                   //
        ("out", po::value(&out), "folder for exams.csv and the frames")                       //
        ("exams", po::value(&options.exams)->default_value(options.exams), "how many exams")  //
        ("frames", po::value(&options.frames)->default_value(options.frames),
         "frames per exam")  //
        ("size", po::value(&options.size)->default_value(options.size),
         "pixels of a frame's side")  //
        ("seed", po::value(&options.seed)->default_value(options.seed), "of all that is random");
    const coldframe::CommandHelp help = {
        "coldframe-make-exams --out FOLDER [options]",
        "Makes synthetic angiography exams whose label is in the order of their frames, and a "
        "manifest for `coldframe extract`.",
        "coldframe-make-exams --out build/quickstart --exams 160 --seed 1"};
    if (!coldframe::parse_command_line(help, described, arguments)) return 0;
    options.out = out;
    coldframe::examples::validate(options);
    coldframe::Progress progress("make-exams", "exams", options.exams);
    coldframe::examples::write_exams(options, [&] { progress.add(); });
    return 0;
  });
}

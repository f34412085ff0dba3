// The page of `plan --format html` in a real browser, where there is one (Debian: chromium).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cli/program.h"
#include "skipped.h"

using namespace plimsoll;
using test::kConfigs;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

/// The browser's program; empty: none.
std::string find_browser() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome", "chrome"}) {
      std::error_code none;
      if (std::filesystem::exists(folder + "/" + name, none)) return folder + "/" + name;
    }
  }
  testing::skip("no browser (chromium): the page is not looked at");
  return "";
}

// Runs in the page once it is laid out: what a reader sees, as JSON in an element of its own.
constexpr const char* kProbe = R"(<script>addEventListener('load',()=>{
const box=e=>e.getBoundingClientRect(),all=s=>[...document.querySelectorAll(s)];
const bar=box(document.getElementById('bar')),out=document.getElementById('kv_out');
const seen=()=>({blocks:+out.dataset.blocks,each:+out.dataset.each,bytes:+out.dataset.bytes,text:out.textContent,
  red:all('#heat td.over').length,cells:all('#heat td').length,need:all('#heat td').map(c=>+c.dataset.bytes)});
const result={bar:bar.width,height:bar.height,page:document.documentElement.scrollWidth,window:innerWidth,
  pieces:all('#bar div').map(d=>({bytes:+d.dataset.bytes,left:box(d).left,width:box(d).width,
  middle:(box(d).top+box(d).bottom)/2,colour:getComputedStyle(d).backgroundColor})),
  rows:all('#parts tr').map(r=>r.cells[0].textContent),verdict:document.getElementById('verdict').textContent,first:seen()};
document.getElementById('util').value=50;document.getElementById('util').dispatchEvent(new Event('input'));
result.half=seen();
const length=document.getElementById('length');
result.each=[16,1000,3000].map(tokens=>{length.value=tokens;length.dispatchEvent(new Event('input'));return {tokens:tokens,blocks:+out.dataset.each}});
const probe=document.createElement('pre');probe.id='probe';probe.textContent='PROBE'+JSON.stringify(result)+'EBORP';document.body.appendChild(probe);
});</script></body>)";

/// The file (and fragment) as the browser shows it once it is laid out; its image in page.png.
std::string dump(const Scratch& scratch, const std::string& browser, const std::string& file) {
  return shell(scratch, "HOME=$PWD '" + browser +
                            "' --headless --no-sandbox --disable-gpu --hide-scrollbars "
                            "--force-device-scale-factor=1 --force-color-profile=srgb "
                            "--user-data-dir=$PWD/profile --window-size=1000,1400 "
                            "--screenshot=page.png --dump-dom \"file://$PWD/" +
                            file + "\" 2>log")
      .out;
}

struct Page {
  Json plan;
  Json probe;
};

/// The plan as JSON, and what the browser makes of its page, opened at `fragment`.
Page open_page(const Scratch& scratch, const std::string& browser, const std::string& arguments,
               const std::string& fragment = "") {
  Page page;
  page.plan = parse_json<Json>(shell(scratch, "plimsoll plan " + arguments + " --format json").out);
  std::string html = shell(scratch, "plimsoll plan " + arguments + " --format html").out;
  const size_t end = html.rfind("</body>");
  REQUIRE(end != std::string::npos);
  html.replace(end, 7, kProbe);
  scratch.write("page.html", html);
  const std::string shown = dump(scratch, browser, "page.html" + fragment);
  const size_t first = shown.find("PROBE{");
  const size_t last = shown.find("}EBORP");
  INFO(scratch.read("log"));
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  // Within the page's text only these three characters are written otherwise.
  std::string text = shown.substr(first + 5, last - first - 4);
  for (const auto& [from, to] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
      text.replace(at, std::string(from).size(), to);
    }
  }
  page.probe = parse_json<Json>(text);
  return page;
}

/// How many of `points` ([x, y, colour]) have their colour in the screenshot. The browser itself
/// reads the image, from a page that holds it.
size_t painted(const Scratch& scratch, const std::string& browser, const Json& points) {
  const std::string image = shell(scratch, "base64 -w0 page.png").out;
  scratch.write("image.html", R"(<img id="i" src="data:image/png;base64,)" + image +
                                  R"("><script>addEventListener('load',()=>{
const canvas=document.createElement('canvas'),image=document.getElementById('i');
canvas.width=image.naturalWidth;canvas.height=image.naturalHeight;
const context=canvas.getContext('2d');context.drawImage(image,0,0);
const colour=(x,y)=>{const [r,g,b]=context.getImageData(x,y,1,1).data;return `rgb(${r}, ${g}, ${b})`};
const right=)" + points.dump() + R"(.filter(([x,y,wanted])=>colour(x,y)===wanted).length;
image.remove();document.body.textContent='RIGHT'+right+'.';});</script>)");
  const std::string shown = dump(scratch, browser, "image.html");
  const size_t at = shown.rfind("RIGHT");
  INFO(scratch.read("log"));
  REQUIRE(at != std::string::npos);
  return std::stoul(shown.substr(at + 5));
}

/// Checks the blocks of a request of each length that the page was asked for.
void check_requests(const Scratch& scratch, const Page& page, const std::string& model) {
  REQUIRE(page.probe["each"].size() == 3);
  for (const Json& request : page.probe["each"]) {
    INFO(request.dump());
    const std::string length = " --max-model-len " + request["tokens"].dump();
    const Outcome there = shell(scratch, "plimsoll plan " + model + length + " --format json");
    const Json plan = parse_json<Json>(there.out);
    const auto blocks = plan["num_gpu_blocks"].get<double>();
    CHECK(request["blocks"] == std::round(blocks / plan["max_concurrency"].get<double>()));
  }
}

}  // namespace

TEST_CASE("the page in a browser: bars, verdict, sliders and heat map are those of the plan",
          "[browser]") {
  const std::string browser = find_browser();
  if (browser.empty()) return;
  const Scratch scratch;
  const std::string model =
      kConfigs + "llama-3.1-8b.json --engine vllm --gpu h100 --max-model-len 8192";
  const Page page = open_page(scratch, browser, model);
  const Json& probe = page.probe;

  // One piece and one row for each part, as wide as its share of the budget.
  const Json& parts = page.plan["parts"];
  REQUIRE(probe["pieces"].size() == parts.size());
  int64_t sum = 0;
  double width = 0;
  std::set<std::string> colours;
  for (size_t i = 0; i < parts.size(); ++i) {
    INFO(parts[i].dump());
    const Json& piece = probe["pieces"][i];
    CHECK(piece["bytes"] == parts[i]["bytes"]);
    CHECK(probe["rows"][i] == parts[i]["name"]);
    const double share = parts[i]["bytes"].get<double>() / page.plan["budget_bytes"].get<double>();
    CHECK(piece["width"].get<double>() == Approx(share * probe["bar"].get<double>()).margin(3));
    sum += piece["bytes"].get<int64_t>();
    width += piece["width"].get<double>();
    colours.insert(piece["colour"].get<std::string>());
  }
  CHECK(sum <= page.plan["budget_bytes"].get<int64_t>());
  CHECK(page.plan["budget_bytes"].get<int64_t>() - sum < 4 << 20);  // less than a few blocks
  CHECK(width == Approx(probe["bar"].get<double>()).margin(4));
  CHECK(probe["height"] > 20);
  CHECK(colours.size() == parts.size());
  CHECK(probe["page"] <= probe["window"]);  // nothing sticks out
  CHECK(probe["verdict"] == "fits");

  // The sliders stand at the plan, and recompute what the program computes.
  const auto same = [](const Json& seen, const Json& plan) {
    CHECK(std::abs(seen["blocks"].get<int64_t>() - plan["num_gpu_blocks"].get<int64_t>()) <= 1);
    CHECK(seen["blocks"].get<double>() / seen["each"].get<double>() ==
          Approx(plan["max_concurrency"].get<double>()).epsilon(1e-3));
  };
  same(probe["first"], page.plan);
  const auto half =
      shell(scratch, "plimsoll plan " + model + " --gpu-memory-utilization 0.5 --format json");
  same(probe["half"], parse_json<Json>(half.out));
  CHECK(probe["half"]["red"] > probe["first"]["red"]);

  // The heat map's first row is 1,024 tokens for 1, 2, 4 ... requests.
  const int64_t row = page.plan["kv_bytes_per_token"].get<int64_t>() * 1024;
  CHECK(probe["first"]["need"][0] == row);
  CHECK(probe["first"]["need"][8] == row * 256);

  // The middle of each piece of the bar is painted in the piece's colour.
  Json points = Json::array();
  for (const Json& piece : probe["pieces"]) {
    if (piece["width"] < 4) continue;  // its middle may be mixed with its neighbours
    points.push_back({piece["left"].get<double>() + piece["width"].get<double>() / 2,
                      piece["middle"], piece["colour"]});
  }
  CHECK(points.size() >= 3);
  CHECK(painted(scratch, browser, points) == points.size());
}

TEST_CASE("the page in a browser: sliding windows, states, and sliders set by the address",
          "[browser]") {
  const std::string browser = find_browser();
  if (browser.empty()) return;
  const Scratch scratch;
  const std::string windows = kConfigs + "gemma-3-27b-it.json --limit-mm-per-prompt image=0";
  const std::string states = PLIMSOLL_SOURCE_DIR
      "/tests/data/vllm/configs/nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json";
  for (const std::string& launch :
       {windows + " --engine vllm", windows + " --engine plimsoll", states + " --engine vllm"}) {
    INFO(launch);
    const std::string model = launch + " --gpu h200";
    if (shell(scratch, "plimsoll plan " + model).status != 0) continue;  // run lacks the family
    const Page page =
        open_page(scratch, browser, model + " --max-model-len 65536", "#util=80&length=40000");
    check_requests(scratch, page, model);
    const auto there = shell(scratch, "plimsoll plan " + model +
                                          " --max-model-len 40000 --gpu-memory-utilization 0.8 "
                                          "--format json");
    const Json plan = parse_json<Json>(there.out);
    const Json& seen = page.probe["first"];
    CHECK(seen["blocks"].get<double>() ==
          Approx(plan["num_gpu_blocks"].get<double>()).epsilon(0.01));
    CHECK(seen["blocks"].get<double>() / seen["each"].get<double>() ==
          Approx(plan["max_concurrency"].get<double>()).epsilon(0.01));
  }
}

TEST_CASE("the page in a browser: what does not fit, and a plan without a card", "[browser]") {
  const std::string browser = find_browser();
  if (browser.empty()) return;
  const Scratch scratch;
  const Page large =
      open_page(scratch, browser, kConfigs + "llama-2-70b.json --engine vllm --gpu a100-80gb");
  CHECK(large.probe["verdict"] == "does not fit");
  CHECK(large.probe["page"] <= large.probe["window"]);
  CHECK(large.probe["first"]["blocks"] == 0);
  const Page bare = open_page(scratch, browser, kConfigs + "llama-2-7b.json --engine vllm");
  CHECK(bare.probe["verdict"] == "no card given");
  CHECK(bare.probe["first"]["red"] == 0);
  CHECK(bare.probe["pieces"].size() == bare.plan["parts"].size());
}

// One page that needs nothing else: what takes the memory, cache against length and batch, sliders.
#include <fmt/format.h>

#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

constexpr const char* kStyle = R"css(
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1f24}
h1{font-size:1.3rem;margin:0 0 .2rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
.verdict{display:inline-block;padding:.1rem .7rem;border-radius:.3rem;color:#fff;font-weight:600}
.yes{background:#1a7f37}.no{background:#b3261e}.none{background:#57606a}
#bar{display:flex;height:2.2rem;border:1px solid #57606a;border-radius:.3rem;overflow:hidden;background:#f6f8fa}
#bar{position:relative}#bar div{min-width:1px}#bar i{position:absolute;top:0;bottom:0;border-left:3px dashed #1b1f24}#limit p{margin:.2rem 0}code{background:#f6f8fa;padding:0 .3rem}
table{border-collapse:collapse;width:100%}
td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #d0d7de}td:first-child,th:first-child,#parts td:last-child,th.from{text-align:left}
.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.5em;border-radius:.15em}
#heat{font-size:.85em}#heat td,#heat th{white-space:nowrap;padding:.15rem .4rem}#heat td{border:1px solid #fff;font-variant-numeric:tabular-nums}
#heat .over{background:#ffcecb}#parts td{white-space:nowrap}#parts td:last-child{white-space:normal;color:#57606a}.key{color:#57606a}
label{display:flex;gap:1rem;align-items:center;margin:.3rem 0}label span{min-width:12rem}input[type=range]{flex:1}
body{overflow-wrap:anywhere}
@media(max-width:40rem){#parts tr{display:flex;flex-wrap:wrap}#parts td,#parts th{flex:1}#parts td:last-child{flex-basis:100%}#parts th:last-child{display:none}label{flex-wrap:wrap}label span{min-width:100%}.scroll{overflow-x:auto}}
output{min-width:6rem;text-align:right;font-variant-numeric:tabular-nums}
)css";

constexpr const char* kScript = R"js(
const colours=['#0969da','#8250df','#bf3989','#bc4c00','#9a6700','#1a7f37','#57606a','#1b7c83','#cf222e','#6639ba','#4d2d00','#0a3069'];
const units=[[2**40,2,' TiB'],[2**30,2,' GiB'],[2**20,1,' MiB'],[2**10,1,' KiB']];
const gib=b=>{for(const [size,digits,name] of units)if(Math.abs(b)>=size)return (b/size).toFixed(digits)+name;return b+' B'};
const el=(tag,text,parent)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;parent.appendChild(e);return e};
const id=name=>document.getElementById(name);
const used=plan.parts.filter(p=>p.name!=='kv cache'&&p.inside_budget!==false).reduce((s,p)=>s+p.bytes,0);
function blocks(length){
  return plan.group_need.reduce((sum,g)=>{
    if(g.state>0)return sum+g.state;
    const held=Math.ceil(length/g.block);
    return sum+(g.most>0?Math.min(held,g.most):held)+g.extra;
  },0);
}
function draw(){
  const all=plan.parts.reduce((s,p)=>s+Math.max(0,p.bytes),0),budget=plan.budget_bytes||all,whole=Math.max(budget,all);
  plan.parts.forEach((p,i)=>{
    const share=100*Math.max(0,p.bytes)/budget;
    const piece=el('div','',id('bar'));piece.style.cssText='width:'+share*budget/whole+'%;background:'+colours[i%colours.length];piece.title=p.name+': '+gib(p.bytes);piece.dataset.bytes=p.bytes;
    const row=el('tr',undefined,id('parts'));const name=el('td',undefined,row);
    const swatch=el('span','',name);swatch.className='swatch';swatch.style.background=colours[i%colours.length];
    el('span',p.name,name);el('td',gib(p.bytes),row);el('td',share>0&&share<.05?'< 0.1 %':share.toFixed(1)+' %',row);el('td',p.formula,row);
  });
  if(whole>budget){const line=el('i','',id('bar'));line.style.left=100*budget/whole+'%';line.title='budget: '+gib(budget);
    el('p','The line is the budget of '+gib(budget)+'.',id('limit'));}
}
function advise(){
  for(const s of plan.advice||[]){const item=el('li',undefined,id(s.helps?'advice':'vain'));
    el('b',(s.fits?'[fits] ':'')+s.change,item);el('span',(s.gain?' ('+s.gain+')':'')+': '+s.cost+' ',item);
    if(s.flag)el('code',s.flag,item);}
  for(const note of plan.notes||[])el('p',note,id('notes'));
  for(const list of ['advice','vain'])id(list).previousElementSibling.hidden=!id(list).children.length;
  id('advising').hidden=!plan.advice;
}
function heat(){
  const table=id('heat');table.textContent='';
  if(!plan.bytes_per_block)return;
  const lengths=[],batches=[1,2,4,8,16,32,64,128,256];
  for(let l=Math.min(1024,plan.max_model_len);l<plan.max_model_len;l*=2)lengths.push(l);
  lengths.push(plan.max_model_len);
  const head=el('tr',undefined,table);el('th','context \\ requests',head);batches.forEach(b=>el('th',b,head));
  lengths.forEach(l=>{const row=el('tr',undefined,table);el('th',l.toLocaleString('en'),row);
    batches.forEach(b=>{const need=blocks(l)*plan.bytes_per_block*b,cell=el('td',gib(need),row);
      const share=need/Math.max(1,state.kv);if(plan.total_bytes&&share>1)cell.className='over';else if(plan.total_bytes)cell.style.background='hsl('+(140-90*share)+' 60% 85%)';
      cell.dataset.bytes=need;cell.title=(100*share).toFixed(0)+' % of the cache';});});
}
const state={kv:plan.kv_cache_bytes||0};
function recompute(){
  const share=+id('util').value/100,length=+id('length').value,batch=2**+id('batch').value;
  id('util_out').value=+share.toFixed(3);id('length_out').value=length.toLocaleString('en');id('batch_out').value=batch;
  state.kv=Math.max(0,Math.floor(plan.total_bytes*share)-used);
  const count=plan.bytes_per_block?Math.floor(state.kv/plan.bytes_per_block):0,each=blocks(length),out=id('kv_out');
  out.textContent=gib(state.kv)+', '+count.toLocaleString('en')+' blocks, '+(each?(count/each).toFixed(2):'0')+' requests of '+length.toLocaleString('en')+' tokens at once; '+batch+' such '+(batch*each>count?'do not fit':'fit');
  out.dataset.blocks=count;out.dataset.each=each;out.dataset.bytes=state.kv;out.className=batch*each>count?'lacking':'';
  heat();
}
function start(){
  const wanted=new URLSearchParams(location.hash.slice(1));
  for(const name of ['util','length','batch'])if(wanted.has(name))id(name).value=wanted.get(name);
  recompute();
}
draw();advise();
if(plan.total_bytes&&typeof plan.engine==='string'){
  id('util').value=Math.round(1000*plan.gpu_memory_utilization)/10;id('length').max=plan.max_model_len;id('length').value=plan.fits&&plan.auto_max_model_len||plan.max_model_len;
  for(const name of ['util','length','batch'])id(name).oninput=recompute;
  start();
}else{id('what_if').hidden=true;heat();}
)js";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// JSON that cannot end the script it stands in.
std::string script_json(const std::string& json) {
  std::string result;
  for (const char c : json) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

/// Sizes of blocks by group, from which the page's script computes a request's blocks.
std::string group_needs(const PlanResult& result) {
  std::string list;
  for (const GroupNeed& need : result.group_needs) {
    list += fmt::format("{}{{block:{},most:{},extra:{},state:{}}}", list.empty() ? "" : ",",
                        need.block_size, need.most_blocks, need.extra_blocks, need.state_blocks);
  }
  return list;
}

/// The cache with its edges, and the first boot's.
std::string bounds_line(const PlanResult& result) {
  if (!result.bounds) return "";
  const auto edges = [](int64_t middle, int64_t low, int64_t high) {
    return fmt::format("{} ({} to {})", readable_bytes(middle), readable_bytes(low),
                       readable_bytes(high));
  };
  const PlanResult::CacheBounds& bounds = *result.bounds;
  std::string line =
      "<p id=\"bounds\">KV cache " +
      edges(bounds.middle.kv_cache_bytes, bounds.low.kv_cache_bytes, bounds.high.kv_cache_bytes);
  if (result.cold) {
    line += "; on the first boot " + edges(result.cold->kv_cache.middle, result.cold->kv_cache.low,
                                           result.cold->kv_cache.high);
  }
  return line + "</p>\n";
}

/// The stages of a pipeline beside each other.
std::string stages_table(const PlanResult& result) {
  if (result.stages.empty()) return "";
  std::string table =
      "<h2>Stages</h2><table id=\"stages\"><thead><tr><th>stage</th><th>layers</th>"
      "<th>weights</th><th>activation</th><th>kv cache</th><th>blocks</th></tr></thead><tbody>\n";
  for (const StageFigures& stage : result.stages) {
    table += fmt::format(
        "<tr><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        stage.stage, stage.stage == result.stage ? ", the tightest" : "", stage.layers,
        readable_bytes(stage.weights_bytes), readable_bytes(stage.activation_peak_bytes),
        readable_bytes(stage.kv_cache_bytes), stage.num_gpu_blocks);
  }
  return table + "</tbody></table>\n";
}

}  // namespace

std::string to_html(const PlanResult& result) {
  const char* verdict = !result.fits ? "none" : (*result.fits ? "yes" : "no");
  const std::string words = result.fits          ? verdict_name(result)
                            : result.gpu.empty() ? "no card given"
                                                 : "no verdict";
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">";
  page += fmt::format("<title>{}: {}</title><style>{}</style></head><body>\n",
                      escaped(result.model), words, kStyle);
  page += fmt::format("<h1>{}</h1><p>{} &middot; {} &middot; {} {}{}</p>\n", escaped(result.model),
                      escaped(result.architecture), escaped(result.dtype), escaped(result.engine),
                      escaped(result.version),
                      result.gpu.empty() ? ""
                                         : fmt::format(" &middot; {} &times; {}", result.gpus,
                                                       escaped(result.gpu)));
  page += fmt::format("<p><span class=\"verdict {}\" id=\"verdict\">{}</span> {}</p>\n", verdict,
                      words, escaped(result.reason));
  page += fmt::format("<h2>Per GPU of {}</h2>\n",
                      result.stages.empty() ? "the largest rank"
                                            : fmt::format("stage {}, the tightest", result.stage));
  page +=
      "<div id=\"bar\"></div><div id=\"limit\"></div>\n"
      "<table><thead><tr><th>part</th><th>bytes</th><th>of the "
      "budget</th><th class=\"from\">from</th></tr></thead>"
      "<tbody id=\"parts\"></tbody></table>\n";
  page += bounds_line(result) + stages_table(result);
  page +=
      "<section id=\"what_if\"><h2>What if</h2>"
      "<label><span>share of the card</span><input type=\"range\" id=\"util\" min=\"10\" "
      "max=\"100\" step=\"0.1\"><output id=\"util_out\"></output></label>"
      "<label><span>context length</span><input type=\"range\" id=\"length\" min=\"1\" "
      "max=\"1\"><output id=\"length_out\"></output></label>"
      "<label><span>requests at once</span><input type=\"range\" id=\"batch\" min=\"0\" "
      "max=\"10\" value=\"0\"><output id=\"batch_out\"></output></label>"
      "<p>KV cache: <b id=\"kv_out\"></b></p></section>\n"
      "<h2>KV cache by context length and requests at once</h2>"
      "<p class=\"key\">Green: within the cache; red: beyond it.</p>"
      "<div class=\"scroll\"><table id=\"heat\"></table></div>\n"
      "<section id=\"advising\"><h2>What would help</h2><ul id=\"advice\"></ul>"
      "<h2>What would not</h2><ul id=\"vain\"></ul></section><section id=\"notes\"></section>\n";
  page += fmt::format(
      "<script>\nconst "
      "plan={};\nplan.bytes_per_block={};plan.group_need=[{}];\n{}</script>\n",
      script_json(to_json(result)), result.bytes_per_block, group_needs(result), kScript);
  return page + "</body></html>\n";
}

}  // namespace plimsoll::plan

(function(){"use strict";
var $=function(selector,root){return[].slice.call((root||document).querySelectorAll(selector))};
$("[data-js]").forEach(function(x){x.hidden=false});
$("details.fold").forEach(function(x){x.open=false});
addEventListener("beforeprint",function(){$("details.fold").forEach(function(x){x.open=true})});
/* switches: one panel of a chart at a time */
$(".chart").forEach(function(chart){
var box=chart.querySelector(".switches");if(!box)return;
var panels=$(":scope>.panels>.panel",chart),status=box.querySelector("[role=status]");
function show(event){
var key=$("input:checked,input[type=hidden],select",box).map(function(x){return x.value}).join("-");
panels.forEach(function(panel){var on=panel.dataset.key===key;panel.classList.toggle("off",!on);
if(on&&event)status.textContent=panel.querySelector("h3").textContent});}
box.hidden=false;box.addEventListener("change",show);show();});
/* rates: which groups, in which order, as rate, difference or ratio */
var rates=document.getElementById("rates");
if(rates){
var tools=rates.querySelector(".tools"),limit=15;
var pick=function(name){var x=tools.querySelector("[name="+name+"]:checked,select[name="+name+"],input[type=search][name="+name+"]");return x?x.value:""};
var cells=function(row){return[].slice.call(row.cells,3)};
$("table.rates",rates).forEach(function(table){
var others=table.tBodies[0].dataset.t.replace(/-/g,"\u2212").split(","),at=0;
$("tr[data-f]",table).forEach(function(row,k){row.dataset.i=k;row.dataset.n=parseInt(row.cells[1].textContent.replace(/,/g,""),10)||0;
cells(row).forEach(function(cell){var other=others[at++];if(other)cell.texts=[cell.firstChild.nodeValue].concat(other.split("|").map(function(x){return x[0]==="."?"0"+x:x}))})})});
var draw=function(){
var mode=pick("mode"),family=pick("family"),order=pick("order"),find=pick("find").toLowerCase(),all=tools.dataset.all==="1",hiddenRows=0;
$("table.rates",rates).forEach(function(table){
var body=table.tBodies[0],rows=$("tr[data-f]",body),last=body.querySelector("tr.all"),heads=$("tr.f",body);
var value=function(row,k){var x=row.cells[row.cells.length-1].texts;return x?parseFloat(x[k].replace("\u2212","-")):NaN};
var sorted=rows.slice();
if(order&&order!=="given")sorted.sort(function(a,b){
var u,v;if(order==="people"){u=-a.dataset.n;v=-b.dataset.n}
else if(order==="rate"){u=-value(a,0);v=-value(b,0)}else if(order==="name"){return a.cells[0].textContent.localeCompare(b.cells[0].textContent)}
else{u=-Math.abs(value(a,1));v=-Math.abs(value(b,1))}
u=isNaN(u)?1e9:u;v=isNaN(v)?1e9:v;return u-v});
else sorted.sort(function(a,b){return a.dataset.i-b.dataset.i});
var count=0;
sorted.forEach(function(row){
var on=(!family||family==="all"||row.dataset.f===family)&&row.cells[0].textContent.toLowerCase().indexOf(find)>=0;
if(on)count++;
var cut=on&&!all&&count>limit&&!find;if(cut)hiddenRows=Math.max(hiddenRows,count-limit);
row.classList.toggle("off",!on||cut);
cells(row).forEach(function(cell){
if(!cell.texts)return;
cell.firstChild.nodeValue=cell.texts[mode==="difference"?1:mode==="ratio"?2:0];
var small=cell.querySelector("i");if(small)small.style.visibility=mode==="rate"?"":"hidden"});
body.insertBefore(row,last)});
heads.forEach(function(row){row.classList.toggle("off",!!family&&family!=="all"||!!find||order&&order!=="given");
var first=sorted.filter(function(x){return x.dataset.f===row.dataset.g})[0];if(first)body.insertBefore(row,first)});});
var more=rates.querySelector(".more");if(more){more.hidden=!hiddenRows;more.textContent="Show all groups ("+hiddenRows+" more)"}};
tools.addEventListener("change",draw);tools.addEventListener("input",draw);
var more=rates.querySelector(".more");if(more)more.addEventListener("click",function(){tools.dataset.all="1";draw()});
draw();}
/* the path of tolerances */
var slider=document.getElementById("tolerance");
if(slider){
var points=JSON.parse(document.getElementById("points").textContent),out=$("[data-o]",document.getElementById("path")),dots=$("#path .dot"),span=document.getElementById("span");
var move=function(){var k=+slider.value,point=points[k];
out.forEach(function(x){x.textContent=point[x.dataset.o]});
slider.setAttribute("aria-valuetext",point.spoken);
dots.forEach(function(dot,j){dot.classList.toggle("on",j===k);dot.setAttribute("r",j===k?6:4)});
if(span)span.setAttribute("d",point.d);
var bars=$("#path .bar"),by=point.by||[];bars.forEach(function(bar,j){bar.style.width=(parseFloat(by[j])||0)+"%";
bar.parentNode.previousElementSibling.textContent=by[j]})};
slider.addEventListener("input",move);
dots.forEach(function(dot,k){dot.style.cursor="pointer";dot.addEventListener("click",function(){slider.value=k;move()})});move();}
/* copy and downloads */
var copy=document.getElementById("copy");
if(copy)copy.addEventListener("click",function(){
var words=$(".verdict p").concat($("#summary dd")).map(function(x){return x.textContent.trim().replace(/\s+/g," ")}).join("\n");
var done=function(){copy.textContent="Copied"};
if(navigator.clipboard&&window.isSecureContext)navigator.clipboard.writeText(words).then(done,select);else select();
function select(){var area=document.createElement("textarea");area.value=words;document.body.appendChild(area);area.select();document.execCommand("copy");area.remove();done()}});
var printer=document.getElementById("print");if(printer)printer.addEventListener("click",function(){window.print()});
$("a[download$='.gz']").forEach(function(link){
if(window.DecompressionStream)link.addEventListener("click",function(event){event.preventDefault();
var bytes=Uint8Array.from(atob(link.href.split(",")[1]),function(c){return c.charCodeAt(0)});
new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob().then(function(blob){
var a=document.createElement("a");a.href=URL.createObjectURL(blob);a.download=link.download.slice(0,-3);a.click();URL.revokeObjectURL(a.href)})})});
})();

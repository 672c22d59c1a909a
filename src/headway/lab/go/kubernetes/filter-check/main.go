// Command filter-check answers what the Kubernetes scheduler would say of a binding. It calls the scheduler's own
// PreFilter and Filter plugins and the API server's own parser of quantities. It needs no cluster.
//
// It reads one JSON request per line and writes one JSON answer per line:
//
//	{"start": {"nodes": [...], "volumes": [...], "claims": [...], "classes": [...], "namespaces": [...]}}
//	{"pod": {...}}                  which nodes pass all filters
//	{"pod": {...}, "node": "n1"}    whether this node does, and if not, why
//	{"bind": {...}, "node": "n1"}   the pod is on this node from now on
//	{"nominate": {...}, "node": "n1"}
//	{"remove": {...}, "node": "n1"} the pod has left this node
//	{"quantities": ["1Gi", ...]}    what the API server reads
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type world struct {
	Nodes      []*v1.Node                  `json:"nodes"`
	Volumes    []*v1.PersistentVolume      `json:"volumes"`
	Claims     []*v1.PersistentVolumeClaim `json:"claims"`
	Classes    []*storagev1.StorageClass   `json:"classes"`
	Namespaces []*v1.Namespace             `json:"namespaces"`
}

type request struct {
	Start      *world   `json:"start"`
	Pod        *v1.Pod  `json:"pod"`
	Bind       *v1.Pod  `json:"bind"`
	Nominate   *v1.Pod  `json:"nominate"`
	Remove     *v1.Pod  `json:"remove"`
	Node       string   `json:"node"`
	Quantities []string `json:"quantities"`
}

type quantity struct {
	OK    bool  `json:"ok"`
	Milli int64 `json:"milli"`
	Value int64 `json:"value"`
}

type answer struct {
	Nodes      []string   `json:"nodes,omitempty"`
	Fits       bool       `json:"fits"`
	Why        string     `json:"why,omitempty"`
	Quantities []quantity `json:"quantities,omitempty"`
	Error      string     `json:"error,omitempty"`
}

// The default profile has these that filter, too, but they need a cluster: DynamicResources, GangScheduling.
var filters = map[string]bool{
	names.SchedulingGates: true, names.PrioritySort: true, names.NodeUnschedulable: true, names.NodeName: true,
	names.TaintToleration: true, names.NodeAffinity: true, names.NodePorts: true, names.NodeResourcesFit: true,
	names.VolumeRestrictions: true, names.NodeVolumeLimits: true, names.VolumeBinding: true, names.VolumeZone: true,
	names.PodTopologySpread: true, names.InterPodAffinity: true, names.DefaultBinder: true,
}

// nominations are the pods that were promised room on a node by preemption.
type nominations map[string][]fwk.PodInfo

func (n nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominations) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo                { return n[node] }

type checker struct {
	ctx       context.Context
	log       klog.Logger
	cache     cache.Cache
	snapshot  *cache.Snapshot
	framework framework.Framework
	nominated nominations
}

func newChecker(ctx context.Context, given *world) (*checker, error) {
	var objects []runtime.Object
	for _, volume := range given.Volumes {
		objects = append(objects, volume)
	}
	for _, claim := range given.Claims {
		objects = append(objects, claim)
	}
	for _, class := range given.Classes {
		objects = append(objects, class)
	}
	for _, namespace := range given.Namespaces {
		objects = append(objects, namespace)
	}
	for _, node := range given.Nodes {
		objects = append(objects, node)
	}
	profile, err := profile()
	if err != nil {
		return nil, err
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &checker{
		ctx: ctx, log: klog.FromContext(ctx), cache: cache.New(ctx, nil, false), snapshot: cache.NewEmptySnapshot(),
		nominated: nominations{},
	}
	c.framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(c.snapshot), frameworkruntime.WithPodNominator(c.nominated),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for _, node := range given.Nodes {
		c.cache.AddNode(c.log, node)
	}
	return c, c.cache.UpdateSnapshot(c.log, c.snapshot)
}

// profile is the scheduler's default one without what scores, preempts or needs a cluster.
func profile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := defaults.Profiles[0]
	var kept []config.Plugin
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		if filters[plugin.Name] {
			kept = append(kept, plugin)
		}
	}
	profile.Plugins.MultiPoint.Enabled = kept
	return &profile, nil
}

// check returns the nodes that pass all filters. If only is not empty, it looks at this node alone.
func (c *checker) check(pod *v1.Pod, only string) answer {
	if len(pod.Spec.SchedulingGates) > 0 {
		return answer{Why: "SchedulingGates: the pod waits for its gates"}
	}
	state := framework.NewCycleState()
	allowed, status, _ := c.framework.RunPreFilterPlugins(c.ctx, state, pod)
	if !status.IsSuccess() {
		return answer{Why: fmt.Sprintf("%s: %s", status.Plugin(), status.Message())}
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return answer{Error: err.Error()}
	}
	found := answer{}
	for _, info := range infos {
		name := info.Node().Name
		if only != "" && name != only {
			continue
		}
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			found.Why = "PreFilter: the node is not among those that its volumes or its affinity allow"
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(c.ctx, state, pod, info)
		if status.IsSuccess() {
			found.Nodes = append(found.Nodes, name)
		} else {
			found.Why = fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
		}
	}
	sort.Strings(found.Nodes)
	if found.Fits = len(found.Nodes) > 0; found.Fits {
		found.Why = ""
	}
	return found
}

func (c *checker) move(pod *v1.Pod, node string, there bool) answer {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	change := c.cache.RemovePod
	if there {
		change = c.cache.AddPod
	}
	if err := change(c.log, placed); err != nil {
		return answer{Error: err.Error()}
	}
	if err := c.cache.UpdateSnapshot(c.log, c.snapshot); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Fits: true}
}

func (c *checker) nominate(pod *v1.Pod, node string) answer {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return answer{Error: err.Error()}
	}
	c.nominated[node] = append(c.nominated[node], info)
	return answer{Fits: true}
}

func (c *checker) answer(asked request) answer {
	switch {
	case asked.Pod != nil:
		return c.check(asked.Pod, asked.Node)
	case asked.Bind != nil:
		return c.move(asked.Bind, asked.Node, true)
	case asked.Remove != nil:
		return c.move(asked.Remove, asked.Node, false)
	case asked.Nominate != nil:
		return c.nominate(asked.Nominate, asked.Node)
	}
	return answer{Error: "this request names nothing to do"}
}

func readQuantities(written []string) answer {
	found := answer{Fits: true}
	for _, text := range written {
		read, err := resource.ParseQuantity(text)
		if err != nil {
			found.Quantities = append(found.Quantities, quantity{})
			continue
		}
		found.Quantities = append(found.Quantities, quantity{true, read.MilliValue(), read.Value()})
	}
	return found
}

func main() {
	metrics.Register()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lines, out := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(lines)
	var c *checker
	for {
		var asked request
		if err := decoder.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "filter-check:", err)
			os.Exit(2)
		}
		said := answer{Error: "the first request must be start"}
		var err error
		switch {
		case asked.Quantities != nil:
			said = readQuantities(asked.Quantities)
		case asked.Start != nil:
			if c, err = newChecker(ctx, asked.Start); err != nil {
				fmt.Fprintln(os.Stderr, "filter-check:", err)
				os.Exit(1)
			}
			said = answer{Fits: true}
		case c != nil:
			said = c.answer(asked)
		}
		if err := out.Encode(said); err != nil {
			os.Exit(1)
		}
	}
}
